"""What the stories about tools need: a web of one's own on loopback, and models that call functions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.gateway.flow_stage import Stage, Talk

from stoker.request.relay import public_fetcher
from stoker.request.relay.public_fetcher import PublicFetcher
from stoker_lab.testing.client import compose_request
from stoker_tools.planner import ServerTools
from stoker_tools.running import ToolRunner
from stoker_tools.tables import LoopLimits, Tool, ToolService

FOUND = [
    {"url": "https://a.example/one", "title": "One", "content": "The tower is 330 m tall."},
    {"url": "https://b.example/two", "title": "Two", "content": "It was 324 m."},
]
MESSAGES, RESPONSES, CHAT = "/v1/messages", "/v1/responses", "/v1/chat/completions"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
FETCH = {"type": "web_fetch_20250910", "name": "web_fetch"}


class Web:
    """Answers HTTP on loopback. `answer(path)`: the bytes; None: never."""

    def __init__(self) -> None:
        self.answer: Callable[[str], bytes | None] = lambda path: http(json.dumps({"results": FOUND}).encode())
        self.asked: list[str] = []
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.open = 0
        self.port = 0
        self.second: asyncio.Event | None = None
        """If there is one, a search for `first` is answered after another one."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            length = next((int(line[16:]) for line in head.split("\r\n") if line.startswith("content-length: ")), 0)
            self.bodies.append(await reader.readexactly(length))
            self.asked.append(head.split(" ")[1])
            data = self.answer(self.asked[-1])
            if self.second is not None and "first" in head:
                await self.second.wait()
            if data is None:
                await reader.read()  # until the other side goes
            else:
                writer.write(data)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()
            if self.second is not None:
                self.second.set()


def http(body: bytes, kind: str = "application/json", status: str = "200 OK", *headers: str) -> bytes:
    more = "".join(f"{header}\r\n" for header in headers)
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def web() -> AsyncIterator[Web]:
    one = Web()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.port = server.sockets[0].getsockname()[1]
    public_fetcher.PORTS.add(one.port)
    try:
        yield one
    finally:
        public_fetcher.PORTS.discard(one.port)
        server.close()


def searxng(web: Web, **fields: Any) -> Tool:
    return Tool(name="web", kind=ToolService.SEARXNG, base_url=f"http://127.0.0.1:{web.port}", **fields)


def fetcher_for(names: dict[str, list[str]] | None = None) -> PublicFetcher:
    """Loopback is as good as public here, but only 127.0.0.1, and only by the names that are known."""
    known = {"site.example": ["127.0.0.1"], **(names or {})}

    async def resolve(host: str, port: int) -> list[str]:
        return known.get(host, [host])

    return PublicFetcher(resolve, lambda address: address == "127.0.0.1")


def use(stage: Stage, *tools: Tool, fetcher: PublicFetcher | None = None, **limits: Any) -> ServerTools:
    planner = ServerTools(
        {tool.name: tool for tool in tools},
        LoopLimits(**limits),
        ToolRunner(asyncio.get_running_loop().time, fetcher or fetcher_for()),
        stage.upstream_client,
        0.02,
    )
    stage.flow.configure(replace(stage.flow.settings, tool_planner=planner))
    return planner


VERSION = (("anthropic-version", "2023-06-01"),)


def messages(
    *tools: dict[str, Any],
    text: str = "How tall is it?",
    headers: tuple[tuple[str, str], ...] = (),
    **fields: Any,
) -> bytes:
    asked = {"model": "a", "max_tokens": 500, "messages": [{"role": "user", "content": text}], "tools": list(tools)}
    return compose_request("POST", MESSAGES, {**asked, **fields}, (*VERSION, *headers))


def responses(*tools: dict[str, Any], **fields: Any) -> bytes:
    return compose_request("POST", RESPONSES, {"model": "a", "input": "How tall?", "tools": list(tools), **fields})


def chat(**fields: Any) -> bytes:
    asked = {"model": "a", "messages": [{"role": "user", "content": "How tall?"}], "web_search_options": {}}
    return compose_request("POST", CHAT, {**asked, **fields})


def called(*calls: tuple[str, str], text: str = "") -> dict[str, Any]:
    """A whole answer of a chat serve that calls these functions with these arguments."""
    listed = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text or None, "tool_calls": listed}
    return {
        "id": "c1", "model": "engine", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }  # fmt: skip


def worded(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "c2", "model": "engine", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 7},
    }  # fmt: skip


def search_for(query: str = "tower") -> tuple[str, str]:
    return "web_search", json.dumps({"query": query})


def fetch_of(url: str) -> tuple[str, str]:
    return "web_fetch", json.dumps({"url": url})


def stream(talk: Talk, answer: dict[str, Any]) -> None:
    """The same answer in events."""
    choice = answer["choices"][0]
    message = choice["message"]
    talk.begin()
    if message.get("content"):
        talk.say(message["content"])
    for at, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        start = {**call, "index": at, "function": {**call["function"], "arguments": arguments[:half]}}
        for delta in (
            {"tool_calls": [start]},
            {"tool_calls": [{"index": at, "function": {"arguments": arguments[half:]}}]},
        ):
            talk.chunk(event_of({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))
    talk.chunk(event_of({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}))
    talk.chunk(event_of({"choices": [], "usage": answer["usage"]}) + b"data: [DONE]\n\n")
    talk.send(b"0\r\n\r\n")


def event_of(document: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % json.dumps(document).encode()
