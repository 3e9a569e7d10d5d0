"""The proxy: one connection per request, one fault for all of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from stoker.domain.lease import Target
from stoker_lab.testing.faults import upstream
from stoker_lab.testing.faults.fault import Document, Frames, PlayedAbility, ServingFault, both, message
from stoker_lab.testing.faults.upstream import UpstreamHead

CHAT = "/v1/chat/completions"
_MAX_BYTES = 64 * 2**20
_WAIT = 0.05
"""Seconds that an answer waits for another one to be mixed with it."""


class FaultProxy:
    """`async with Proxy(target, fault) as proxy`: listens on loopback at `proxy.port`."""

    def __init__(
        self, target: Target, fault: ServingFault, grafts: Sequence[PlayedAbility] = (), port: int = 0
    ) -> None:
        self.target = target
        self.fault = fault
        self.abilities = tuple(grafts)
        self.port = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._busy = 0
        self._number = 0
        self._dice = random.Random(fault.name)
        self._texts: list[str] = []
        """Texts of answers that were given while others were under way."""

    async def __aenter__(self) -> FaultProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=_MAX_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        """Cuts everything that is under way."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def forever(self) -> None:
        if self._server is not None:
            await self._server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = asyncio.current_task()
        if own is not None:
            self._tasks.add(own)
            own.add_done_callback(self._tasks.discard)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, path, _ = head.split(" ", 2)
            lengths = [
                line.split(":", 1)[1] for line in head.lower().split("\r\n") if line.startswith("content-length")
            ]
            body = await reader.readexactly(int(lengths[0])) if lengths else b""
            await self._answer(reader, writer, method, path, body)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the proxy ends
        finally:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: bytes
    ) -> None:
        """1. pages  2. prompts in other dialects  3. chat: whole  4. streamed, held back  5. streamed, passed on."""
        asked = _document(body)
        where = path.partition("?")[0]
        if asked is None or "messages" not in asked:  # 1
            await self._page(writer, method, path, body)
            return
        given = msgspec.json.decode(body)
        fault = self._due() if where == CHAT else self.fault
        if fault.request is not None:
            fault.request(where, asked)
        for ability in self.abilities:
            if ability.request is not None:
                ability.request(where, asked)
        sent = msgspec.json.encode(asked)
        if where != CHAT:  # 2
            await self._page(writer, method, path, sent)
            return
        self._busy += 1
        try:
            await asyncio.sleep(fault.delay)
            if not asked.get("stream"):  # 3
                await self._whole(writer, path, given, asked, fault)
            elif self._holds_back(asked, fault):  # 4
                await self._held(writer, path, given, asked, fault)
            else:  # 5
                await self._passed(reader, writer, path, sent)
        finally:
            self._busy -= 1

    def _due(self) -> ServingFault:
        self._number += 1
        is_due = self._number % self.fault.every == 0 and self._dice.random() < self.fault.share
        return self.fault if is_due else ServingFault("none", "", frozenset())

    def _holds_back(self, asked: Document, fault: ServingFault) -> bool:
        grafted = any(graft.stream for graft in self.abilities) or self._played(asked) is not None
        return bool(fault.stream or fault.lines or fault.mixes or fault.shortens or fault.status or grafted)

    async def _page(self, writer: asyncio.StreamWriter, method: str, path: str, body: bytes) -> None:
        head, content = await self._fetch(method, path, body)
        hooks = [graft.page for graft in self.abilities if graft.page] + ([self.fault.page] if self.fault.page else [])
        if hooks and head.status == 200 and "json" in head.kind:
            page = msgspec.json.decode(content)
            for hook in hooks:
                page = hook(path.partition("?")[0], page)
            head = head if page is not None else head._replace(status=404)
            content = msgspec.json.encode(page)
        await _send(writer, head, content)

    async def _fetch(self, method: str, path: str, body: bytes) -> tuple[UpstreamHead, bytes]:
        """The reply with the fault's status; with `shortens`, after cutting what was too long."""
        head, content = await upstream.whole(self.target, method, path, body)
        asked = _document(body)
        while self.fault.shortens and head.status == 400 and b"exceed" in content and asked is not None:
            turn = asked["messages"][-1]
            turn["content"] = turn["content"][len(turn["content"]) // 4 :]
            head, content = await upstream.whole(self.target, method, path, msgspec.json.encode(asked))
        if self.fault.status is not None:
            head = head._replace(status=self.fault.status(head.status))
        return head, content

    async def _whole(
        self, writer: asyncio.StreamWriter, path: str, given: Document, asked: Document, fault: ServingFault
    ) -> None:
        played = self._played(asked)
        if played is None:
            head, content = await self._fetch("POST", path, msgspec.json.encode(asked))
            if head.status != 200:
                await _send(writer, head, content)
                return
            reply = msgspec.json.decode(content)
        else:
            reply = _reply(asked, played)
        for graft in self.abilities:
            if graft.whole is not None:
                graft.whole(asked, reply)
        if fault.mixes:
            (await self._mixed(str(message(reply).get("content") or "")))[0](given, reply)
        if fault.whole is not None:
            fault.whole(given, reply)
        await _send(writer, UpstreamHead(200, "application/json"), msgspec.json.encode(reply))

    async def _held(
        self, writer: asyncio.StreamWriter, path: str, given: Document, asked: Document, fault: ServingFault
    ) -> None:
        played = self._played(asked)
        if played is None:
            head, content = await self._fetch("POST", path, msgspec.json.encode(asked))
            if head.status != 200 or "event-stream" not in head.kind:
                await _send(writer, head, content)
                return
            frames: Frames = [_document(data) for data in _events(content)]
        else:
            frames = _frames(asked, played)
        for graft in self.abilities:
            if graft.stream is not None:
                frames = graft.stream(asked, frames)
        if fault.mixes:
            texts = [choice["delta"].get("content") or "" for frame in frames if frame
                     for choice in frame.get("choices") or ()]  # fmt: skip
            frames = (await self._mixed("".join(texts)))[1](given, frames)
        if fault.stream is not None:
            frames = fault.stream(given, frames)
        lines = (fault.lines or _lines)(frames)
        await _send(
            writer, UpstreamHead(200, "text/event-stream"), b"".join(b"data: " + line + b"\n\n" for line in lines)
        )

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, sent: bytes) -> None:
        """Passes the stream on as it comes. If the client leaves, the upstream's connection is closed, unless the fault
        is to leave it open.
        """
        async with asyncio.TaskGroup() as group:
            pump = group.create_task(self._pump(writer, path, sent))
            watch = group.create_task(_left(reader))
            await asyncio.wait((pump, watch), return_when=asyncio.FIRST_COMPLETED)
            if not pump.done() and not self.fault.keeps_generating:
                pump.cancel()
            if pump.done():
                watch.cancel()

    async def _pump(self, writer: asyncio.StreamWriter, path: str, sent: bytes) -> None:
        async with aclosing(upstream.ask(self.target, "POST", path, sent)) as coming:
            async for part in coming:
                if writer.transport.is_closing():
                    continue  # read on, so that the upstream does not notice
                with suppress(OSError):
                    writer.write(_head(part) if isinstance(part, UpstreamHead) else part)

    def _played(self, asked: Document) -> Document | None:
        for graft in self.abilities:
            if graft.answer is not None and (found := graft.answer(asked)) is not None:
                return found
        return None

    async def _mixed(self, text: str) -> tuple[Any, Any]:
        """Hooks that put in the text of an answer that was given to another request under way."""
        crowded = self._busy > 1
        if crowded:
            self._texts.append(text)
            await asyncio.sleep(_WAIT)
        others = [one for one in self._texts if one != text]
        if not crowded or not others:
            self._texts.clear()
            return both(lambda asked, own: own)
        other = others[-1]
        return both(lambda asked, own: other)


async def _left(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        await reader.read(1)


def _document(body: bytes) -> Document | None:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _events(content: bytes) -> list[bytes]:
    lines = content.replace(b"\r\n", b"\n").split(b"\n")
    return [line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:")]


def _usage(asked: Document) -> Document:
    pictures = str(asked.get("messages")).count("image_url") // 2
    prompt = 20 + 60 * pictures
    return {"prompt_tokens": prompt, "completion_tokens": 12, "total_tokens": prompt + 12}


def _reply(asked: Document, played: Document) -> Document:
    end = "tool_calls" if played.get("tool_calls") else "stop"
    choice = {"index": 0, "message": played, "finish_reason": end}
    return {"id": "chatcmpl-grafted", "object": "chat.completion", "model": asked.get("model"), "choices": [choice],
            "usage": _usage(asked)}  # fmt: skip


def _frames(asked: Document, played: Document) -> Frames:
    def frame(delta: Document, end: str | None = None) -> Document:
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        return {"id": "chatcmpl-grafted", "object": "chat.completion.chunk", "choices": [choice]}

    found: Frames = [frame({"role": "assistant", "content": None})]
    if played.get("content"):
        found += [frame({"content": word + " "}) for word in played["content"].split()]
    calls = played.get("tool_calls") or ()
    found += [frame({"tool_calls": [{"index": at, **call}]}) for at, call in enumerate(calls)]
    found.append(frame({}, "tool_calls" if calls else "stop"))
    if (asked.get("stream_options") or {}).get("include_usage"):
        found.append({"object": "chat.completion.chunk", "choices": [], "usage": _usage(asked)})
    return [*found, None]


def _lines(frames: Frames) -> list[bytes]:
    return [b"[DONE]" if one is None else msgspec.json.encode(one) for one in frames]


def _head(head: UpstreamHead) -> bytes:
    return f"HTTP/1.1 {head.status} Said\r\ncontent-type: {head.kind}\r\nconnection: close\r\n\r\n".encode()


async def _send(writer: asyncio.StreamWriter, head: UpstreamHead, content: bytes) -> None:
    lines = f"HTTP/1.1 {head.status} Said\r\ncontent-type: {head.kind}\r\ncontent-length: {len(content)}\r\n"
    writer.write(lines.encode() + b"connection: close\r\n\r\n" + content)
    await writer.drain()
