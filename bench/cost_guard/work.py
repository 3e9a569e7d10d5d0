"""The request path, from the client's bytes to the sealed decision, on in-memory transports.

Everything that a plain request uses is real: a key, the scheduler, the relay, the decision log, the metrics. Only the
sockets, the serve and the fleet are not.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.cost_guard.in_memory import InMemoryLoop, MemoryTransport
from bench.exchange import Ask, ending, event, opening, plain_reply, request
from stoker.access.access_control import AccessControl
from stoker.domain.access import ListenSettings
from stoker.domain.decision import Decision
from stoker.domain.dialect import Dialect
from stoker.domain.key import Key
from stoker.domain.serve import Secret, Serve, Slot
from stoker.domain.trace import Tracer
from stoker.exchange.formatter import Formatter
from stoker.exchange.upstream_client import UpstreamClient
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.flow import Flow
from stoker.gateway.http_api import Endpoints, HttpApi
from stoker.gateway.settings import FlowSettings
from stoker.request.accept.connection import ServerState, WireProtocol
from stoker.request.decide.names import Names
from stoker.request.relay.pool import ConnectionPool
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.store.decisions import DecisionLog
from stoker.store.metrics import Metrics
from stoker_lab.testing.fleet import FakeFleet

KEY = "key-of-the-cost-guard"
EVENTS = 100
"""Events of one stream."""


class Work(NamedTuple):
    """One kind of request, and how much of it is done."""

    name: str
    path: str
    ask: Ask
    size: int
    """Bytes of the request."""
    units: int
    """Requests, or events, that one request counts as."""

    @property
    def message(self) -> bytes:
        body = request("alias", self.ask, self.size).fill(self.ask.key())
        head = (
            f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1:8000\r\nauthorization: Bearer {KEY}\r\n"
            f"user-agent: OpenAI/Python 2.0\r\naccept: application/json\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    @property
    def reads(self) -> list[bytes]:
        """The serve's reply."""
        key = self.ask.key()
        if not self.ask.stream:
            return [_whole(plain_reply().replace(b"@@number", key))]
        pieces = [opening(), *(event(at) for at in range(self.ask.events)), ending(self.ask.events, True)]
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        first, *rest = (_chunk(piece.replace(b"@@number", key)) for piece in pieces)
        return [head + first, *rest[:-1], rest[-1] + b"0\r\n\r\n"]


CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
KINDS = {
    work.name: work
    for work in (
        Work("request of 2 KB", CHAT, Ask(1, False), 2048, 1),
        Work("request of 200 KB", CHAT, Ask(2, False), 200 * 1024, 1),
        Work("event", CHAT, Ask(3, True, EVENTS), 2048, EVENTS),
        Work("translated event", MESSAGES, Ask(4, True, EVENTS), 2048, EVENTS),
    )
}


class Client:
    """Sends one request after the other over one connection."""

    def __init__(self, protocol: WireProtocol, message: bytes, times: int) -> None:
        self._protocol = protocol
        self._message = message
        self._left = times
        self._loop = asyncio.get_running_loop()
        self.done = self._loop.create_future()
        protocol.connection_made(MemoryTransport(protocol, self._receive))
        self._send()

    def _send(self) -> None:
        self._left -= 1
        self._protocol.data_received(self._message)

    def _receive(self, data: bytes) -> None:
        if not data.endswith((b"}", b"0\r\n\r\n")):
            if not data.startswith((b"HTTP/1.1 200", b"data", b"event")) and b"\r\n" not in data[:8]:
                raise AssertionError(data[:200])
            return
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            raise AssertionError(data[:400])
        if self._left:
            self._loop.call_soon(self._send)
        else:
            self.done.set_result(None)


@contextlib.contextmanager
def prepared(work: Work, tracer: Tracer | None = None) -> Iterator[tuple[InMemoryLoop, WireProtocol]]:
    """The request path, with its model loaded. `tracer`: with telemetry."""
    loop = InMemoryLoop()
    loop.answer = lambda: list(reads)
    reads = work.reads
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(loop):
        decisions = DecisionLog(Path(folder) / "decisions.db", 1000)
        try:
            yield loop, loop.run_until_complete(_protocol(decisions, tracer))
        finally:
            decisions.close()


def perform(work: Work, loop: InMemoryLoop, protocol: WireProtocol, times: int) -> None:
    """Do the work `times` times. Raises AssertionError for a reply that is no answer."""

    async def run() -> None:
        client = Client(protocol, work.message, times)
        await client.done

    loop.run_until_complete(run())


async def _protocol(decisions: DecisionLog, tracer: Tracer | None) -> WireProtocol:
    slot = Slot("gpu0")
    serve = Serve(
        "engine", slot="gpu0", served_name="bench-engine", aliases=("alias",), max_active=8,
        dialects=frozenset((Dialect.CHAT,)),
    )  # fmt: skip
    front_door = ListenSettings(keys=(Key("team", Secret(KEY, "env:KEY")),))
    metrics = Metrics()
    pool = ConnectionPool()
    clock = _Clock()
    conductor = Conductor((slot,), (serve,), FakeFleet({"engine": 1}), clock)
    carrier = UpstreamClient(conductor, pool, Formatter(ThinkingSigner((b"k" * 32,)), clock.wall), clock)

    def seal(decision: Decision) -> None:
        decisions.record(decision)
        metrics.observe(decision)

    flow = Flow(FlowSettings(front_door, Names((serve,))), carrier, clock, seal, tracer=tracer)
    front = HttpApi(flow, AccessControl(front_door), Endpoints(None, None, None))  # type: ignore[arg-type]  # not asked
    return WireProtocol(front, ServerState())


class _Clock:
    """Always the same time: nothing may depend on how fast this machine is."""

    def now(self) -> float:
        return 1000.0

    def wall(self) -> float:
        return 1.7e9


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _whole(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body
