"""The engine that costs nothing: `python -m bench.upstream PORT`. A minimal protocol on uvloop, replies pre-encoded.

Answers what the marker in the request asks for (see `exchange`): 0.6 KB at once, or a stream whose first token comes at
once, in one write with the role, and each further event `gap` later, counted from the request, in a write of its own.
"""

from __future__ import annotations

import asyncio
import json
import sys
from functools import lru_cache
from typing import cast

import httptools
import uvloop

from bench import exchange
from bench.exchange import Ask, Template

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


def _plain(body: bytes, status: bytes = b"200 OK") -> bytes:
    return _HEAD.replace(b"200 OK", status) % len(body) + body


def _chunked(text: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(text), text)


_MODELS = _plain(json.dumps({"object": "list", "data": [{"id": exchange.MODEL, "object": "model"}]}).encode())
_INFO = _plain(json.dumps({"model_path": exchange.MODEL, "served_model_name": exchange.MODEL}).encode())
_HEALTHY = _plain(b'{"status":"ok"}')
_ABSENT = _plain(b'{"error":{"message":"no such path"}}', b"404 Not Found")
_REPLY = Template(_plain(exchange.plain_reply()))  # the hole is as long as the number
_GET = {b"/v1/models": _MODELS, b"/health": _HEALTHY, b"/get_model_info": _INFO, b"/get_server_info": _INFO}


@lru_cache(maxsize=64)
def _writes(events: int, usage: bool) -> tuple[Template, ...]:
    """One template per write: head, role and first token; each further event; the ending."""
    first = _STREAM + _chunked(exchange.opening()) + (_chunked(exchange.event(0)) if events else b"")
    rest = (Template(_chunked(exchange.event(n))) for n in range(1, events))
    return (Template(first), *rest, Template(_chunked(exchange.ending(events, usage)) + b"0\r\n\r\n"))


class Connection(asyncio.Protocol):
    """One client connection, keep-alive, one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._parser = httptools.HttpRequestParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_begin(self) -> None:
        self._url = b""
        self._body: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            self._transport.write(_GET.get(self._url, _ABSENT))
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        ask = exchange.read(body)
        if ask is None:
            self._transport.write(_ABSENT)
        elif not ask.stream:
            self._transport.write(_REPLY.fill(ask.key()))
        else:
            self.stream_reply(ask, exchange.wants_usage(body))

    def stream_reply(self, ask: Ask, usage: bool) -> None:
        key, gap, began = ask.key(), ask.gap / 1e6, self._loop.time()
        writes = _writes(ask.events, usage)
        self._transport.write(writes[0].fill(key))

        def go_on(index: int) -> None:
            self._transport.write(writes[index].fill(key))
            if index + 1 < len(writes):
                self._timer = self._loop.call_at(began + (index + 1) * gap, go_on, index + 1)

        self._timer = self._loop.call_at(began + gap, go_on, 1)


async def serve(port: int) -> None:
    """Listen on loopback until cancelled."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
