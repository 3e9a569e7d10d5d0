"""One request to the upstream, its reply piece by piece. Ending it early closes the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

import httptools

from stoker.domain.lease import Target


class UpstreamHead(NamedTuple):
    status: int
    kind: str
    """Content type, lower case."""


async def ask(target: Target, method: str, path: str, body: bytes) -> AsyncGenerator[UpstreamHead | bytes]:
    """The head, then the body's pieces. Raises OSError; ends silently where the reply breaks off."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        writer.write(_request(target, method, path, body))
        reply = _ReplyReader()
        parser = httptools.HttpResponseParser(reply)
        while not reply.is_over:
            data = await reader.read(65536)
            if not data:
                return
            parser.feed_data(data)
            if reply.has_head and not reply.is_head_sent:
                reply.is_head_sent = True
                yield UpstreamHead(parser.get_status_code(), reply.kind)
            pieces, reply.pieces = reply.pieces, []
            for piece in pieces:
                yield piece
    finally:
        writer.transport.abort()


def _request(target: Target, method: str, path: str, body: bytes) -> bytes:
    lines = [f"{method} {target.base_path}{path} HTTP/1.1", f"host: {target.host}:{target.port}"]
    if target.key is not None:
        lines.append(f"authorization: Bearer {target.key}")
    if body:
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def whole(target: Target, method: str, path: str, body: bytes) -> tuple[UpstreamHead, bytes]:
    """The reply's head and body; 502 if no reply comes."""
    head, pieces = UpstreamHead(502, "application/json"), []
    try:
        async with aclosing(ask(target, method, path, body)) as coming:
            async for part in coming:
                if isinstance(part, UpstreamHead):
                    head = part
                else:
                    pieces.append(part)
    except OSError:
        return UpstreamHead(502, "application/json"), b'{"error":{"message":"the upstream cannot be reached"}}'
    return head, b"".join(pieces)


class _ReplyReader:
    def __init__(self) -> None:
        self.has_head = self.is_head_sent = self.is_over = False
        self.kind = ""
        self.pieces: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type":
            self.kind = value.decode("latin-1").lower()

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_over = True
