"""One keep-alive client connection that checks every byte it gets back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple, cast

import httptools

from bench import exchange
from bench.exchange import Ask, Template


class Plan(NamedTuple):
    """What one pass sends and must get: both still without the exchange's number."""

    head: bytes
    request: Template
    reply: Template
    first_token_at: int
    exact: bool
    """True: the reply must be the upstream's bytes. False (a gateway that rewrites events): counters in order."""


class Outcome(NamedTuple):
    """How one exchange went. Seconds from the request's first byte; `first` None = no token came."""

    first: float | None
    total: float
    failure: str | None


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 over one connection; `exchange` runs one request at a time.

    Times are perf_counter's: uvloop's own clock has milliseconds.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[Outcome] | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._finish("connection closed early")

    def close(self) -> None:
        if self.is_open:
            self._transport.abort()

    async def exchange(self, plan: Plan, ask: Ask) -> Outcome:
        """Send, read to the end, check. A broken connection is an outcome, not an exception.

        On cancel the connection is aborted: whatever else would come belongs to nobody.
        """
        self._plan, self._ask = plan, ask
        self._expected = plan.reply.fill(ask.key())
        self._received = 0
        self._pieces: list[bytes] = []
        self._first: float | None = None
        self._wrong: str | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._done = self._loop.create_future()
        self._began = perf_counter()
        self._transport.write(plan.head + plan.request.fill(ask.key()))
        try:
            return await self._done
        except asyncio.CancelledError:
            self._done = None
            self.close()
            raise

    def data_received(self, data: bytes) -> None:
        if self._done is None:
            self.close()  # bytes that nobody asked for: the next exchange on this connection would be wrong
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._wrong = self._wrong or f"not HTTP: {error}"
            self._finish(None)
            self.close()

    def on_body(self, body: bytes) -> None:
        if not self._plan.exact:
            self._pieces.append(body)
            if self._first is None and b"tok00000-" in b"".join(self._pieces):
                self._first = perf_counter()
        elif self._wrong is None and not self._expected.startswith(body, self._received):
            self._wrong = f"other bytes at {self._received}"
        self._received += len(body)
        if self._first is None and self._plan.exact and self._received >= self._plan.first_token_at:
            self._first = perf_counter()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 200:
            self._wrong = f"status {status}"
        elif self._wrong is None and not self._plan.exact:
            self._wrong = exchange.misordered(b"".join(self._pieces), self._ask)
        elif self._wrong is None and self._received != len(self._expected):
            self._wrong = f"{self._received} bytes instead of {len(self._expected)}"
        self._finish(None)
        if not self._parser.should_keep_alive():
            self.close()

    def _finish(self, failure: str | None) -> None:
        done, self._done = self._done, None
        if done is not None and not done.done():
            first = None if self._first is None else self._first - self._began
            done.set_result(Outcome(first, perf_counter() - self._began, self._wrong or failure))


def open_with(
    host: str,
    port: int,
    key: str | None,
    model: str,
    ask: Ask,
    size: int,
    exact: bool,
    path: str = exchange.CHAT,
    headers: Sequence[tuple[str, str]] = (),
) -> Plan:
    """The plan of one pass: `ask` gives everything but the number, `headers` are sent besides the usual."""
    request = exchange.request(model, ask, size)
    length = len(request.fill(ask.key()))
    authorization = f"authorization: Bearer {key}\r\n" if key else ""
    more = "".join(f"{name}: {value}\r\n" for name, value in headers)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}:{port}\r\n{authorization}{more}"
        f"content-type: application/json\r\naccept: */*\r\ncontent-length: {length}\r\n\r\n"
    )
    first = exchange.first_token_at(ask.events) if ask.stream else 1
    return Plan(head.encode(), request, exchange.reply(ask), first, exact)
