"""A client of the front door: one connection, strict reading, in every dialect."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, ParamSpec

from tests.scenarios.plane import PATIENCE, Plane

from stoker_lab.testing.client import RawClient, RawHead, RawReply, SseEvent, compose_request

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
STREAMING = sorted(PATHS)
P = ParamSpec("P")


def story(tell: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """A test that is told on a loop of its own."""

    @functools.wraps(tell)
    def run(*given: P.args, **named: P.kwargs) -> None:
        async def whole() -> None:
            await tell(*given, **named)

        asyncio.run(whole())

    return run


def document(model: str, text: str = "hello", dialect: str = "chat", **fields: Any) -> dict[str, Any]:
    """A request's body. `text` may carry `script: key=value` for a scripted serve."""
    turns = [{"role": "user", "content": text}]
    content: dict[str, dict[str, Any]] = {
        "chat": {"messages": turns},
        "completions": {"prompt": text},
        "messages": {"messages": turns, "max_tokens": 10_000},
        "responses": {"input": text},
    }
    return {"model": model, **content[dialect], **fields}


def budget(dialect: str, tokens: int) -> dict[str, Any]:
    """The field that bounds the output."""
    return {"max_output_tokens" if dialect == "responses" else "max_tokens": tokens}


class Talk(RawClient):
    """One request; `async with Talk(plane, "a", "script: gap=0.05", stream=True) as talk`. Sent on entering."""

    def __init__(
        self, plane: Plane, model: str, text: str = "hello", dialect: str = "chat", *,
        receive_buffer: int | None = None, headers: tuple[tuple[str, str], ...] = (), **fields: Any,
    ) -> None:  # fmt: skip
        super().__init__(plane.port, timeout=PATIENCE, receive_buffer=receive_buffer)
        self.dialect = dialect
        self.path = PATHS[dialect]
        self._wire = compose_request("POST", PATHS[dialect], document(model, text, dialect, **fields), headers)
        self._head: RawHead | None = None
        self._events: AsyncIterator[SseEvent] | None = None

    async def connect(self) -> None:
        await super().connect()
        await self.send(self._wire)

    async def opened(self) -> RawHead:
        """The reply's head; waited for once."""
        if self._head is None:
            self._head = await self.head()
        return self._head

    async def event(self) -> SseEvent:
        """The next event of the stream; raises StopAsyncIteration at its end."""
        head = await self.opened()
        assert head.status == 200, head
        if self._events is None:
            self._events = self.events(head)
        return await anext(self._events)

    async def rest(self) -> list[SseEvent]:
        """Every further event, up to the proper end of the reply's framing."""
        found = []
        try:
            while True:
                found.append(await self.event())
        except StopAsyncIteration:
            return found

    async def text(self) -> str:
        """The whole stream's text; fails unless it ended as its dialect ends."""
        found = await self.rest()
        assert is_complete(found, self.dialect), found[-3:]
        return "".join(said(event, self.dialect) for event in found)


def said(event: SseEvent, dialect: str) -> str:
    """The text that one event adds."""
    if event.comment or event.data == "[DONE]":
        return ""
    frame = event.json()
    if dialect == "chat":
        return "".join(choice["delta"].get("content") or "" for choice in frame.get("choices", ()))
    if dialect == "completions":
        return "".join(choice["text"] for choice in frame.get("choices", ()))
    if dialect == "messages":
        return str(frame["delta"].get("text", "")) if frame["type"] == "content_block_delta" else ""
    return str(frame["delta"]) if frame["type"] == "response.output_text.delta" else ""


def is_complete(events: list[SseEvent], dialect: str) -> bool:
    """Whether the dialect's own end is there."""
    last = events[-1] if events else None
    if last is None:
        return False
    return {"messages": last.name == "message_stop", "responses": last.name == "response.completed"}.get(
        dialect, last.data == "[DONE]"
    )


def errors(events: list[SseEvent], dialect: str) -> list[dict[str, Any]]:
    """The error in each error event; each has `message`, `code`."""
    found = []
    for event in events:
        if event.comment or event.data == "[DONE]":
            continue
        frame = event.json()
        if dialect == "responses":
            found += [frame] if frame.get("type") == "error" else []
        elif dialect == "messages":
            found += [frame["error"]] if frame.get("type") == "error" else []
        elif "error" in frame:
            found.append(frame["error"])
    return found


def closing_errors(events: list[SseEvent], dialect: str) -> list[dict[str, Any]]:
    """The error that the stream ends with, if it does. In Responses `response.failed` follows it."""
    if dialect != "responses":
        return errors(events[-1:], dialect)
    return errors(events[-2:-1], dialect) if events[-1].name == "response.failed" else []


async def ask(
    plane: Plane, model: str, text: str = "hello", dialect: str = "chat",
    headers: tuple[tuple[str, str], ...] = (), **fields: Any,
) -> RawReply:  # fmt: skip
    """A whole reply that is not streamed, on a connection of its own."""
    async with Talk(plane, model, text, dialect, headers=headers, **fields) as talk:
        return await talk.reply()


def words(count: int) -> str:
    """What a scripted serve says in `count` tokens."""
    return " ".join(f"tok{at}" for at in range(count))
