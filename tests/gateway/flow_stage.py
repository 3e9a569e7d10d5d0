"""The stage of the flow stories: a real server with WireProtocol, the whole request path, and a model whose every byte
the story writes itself. A story ends only when nothing is left: no lease, no waiter, no active call, no connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
import uvloop

from stoker.access.access_control import AccessControl
from stoker.access.keyring import Keyring
from stoker.access.usage import UsageTotals
from stoker.domain.access import ListenSettings, ResponseStorage
from stoker.domain.decision import Decision
from stoker.domain.events import Event, Notify, ServeDisconnected
from stoker.domain.serve import Serve, Slot, replicas_of
from stoker.exchange.formatter import Formatter
from stoker.exchange.upstream_client import UpstreamClient
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.admin import AdminReply
from stoker.gateway.flow import Flow
from stoker.gateway.http_api import Endpoints, HttpApi
from stoker.gateway.response_turns import ResponseTurns, SummarySeals
from stoker.gateway.responses import StoredResponses
from stoker.gateway.settings import FlowSettings
from stoker.request.accept.connection import LINGERING, PACE, Lingering, ServerState, UploadPace, WireProtocol
from stoker.request.decide.names import Names
from stoker.request.relay.pool import ConnectionPool
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.store.responses import ResponseStore
from stoker_lab.testing.client import RawClient, compose_request
from stoker_lab.testing.fleet import FakeFleet

CHAT = "/v1/chat/completions"
PATIENCE = 3.0
"""Seconds until a story that waits for something has failed."""


class LoopClock:
    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return 1.0


class SmallModels:
    """A list of models without anything of the fleet."""

    def serve(self, name: str, serve: Serve) -> dict[str, Any]:
        return {"id": name}

    def planned(self, name: str, about: Mapping[str, Any]) -> dict[str, Any]:
        return {"id": name, **about}

    def is_up(self, serve: Serve) -> bool:
        return False


class SmallStatus:
    def document(self) -> dict[str, Any]:
        return {"version": "0"}

    def metrics(self, status: dict[str, Any]) -> bytes:
        return b"# none\n"


class SmallAdmin:
    async def handle(self, *asked: Any) -> AdminReply:
        return AdminReply({"verb": asked[2]})


SAYS = {"choices", "content", "output", "input_tokens", "data", "error"}
"""What makes a reply the one that it is meant to be."""


class Talk(asyncio.Protocol):
    """One connection to the model; what it is asked, and what it says. One request at a time."""

    def __init__(self, talks: asyncio.Queue[Talk], lines: list[Talk]) -> None:
        self.talks = talks
        self._buffer = b""
        self._wanted: int | None = None
        self._lines = lines
        self.head = b""
        self.body = b""
        self.gone = asyncio.Event()
        self.writable = asyncio.Event()
        self.transport: asyncio.Transport = None  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.writable.set()
        self._lines.append(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._wanted is None and b"\r\n\r\n" in self._buffer:
            self.head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
            self._wanted = int(self.header("content-length") or 0)
        if self._wanted is not None and len(self._buffer) >= self._wanted:
            self.body, self._buffer = self._buffer[: self._wanted], self._buffer[self._wanted :]
            self._wanted = None
            self.talks.put_nowait(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def header(self, name: str) -> str | None:
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name:
                return value.strip()
        return None

    def json(self) -> Any:
        return json.loads(self.body)

    # -- what it says ----------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self.transport.write(data)

    def reply(self, document: object, status: str = "200 OK", *headers: str) -> None:
        """A whole reply. A 200 that does not say otherwise is an answer."""
        if isinstance(document, dict) and status == "200 OK" and not document.keys() & SAYS:
            document = {**document, "choices": [{"message": {"role": "assistant", "content": "x"}}]}
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        extra = "".join(f"{h}\r\n" for h in headers)
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{extra}content-length: {len(body)}\r\n\r\n"
        self.send(head.encode() + body)

    def begin(self, *headers: str) -> None:
        """The head of a stream."""
        extra = "".join(f"{h}\r\n" for h in headers)
        self.send(
            f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n{extra}\r\n".encode()
        )

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def say(self, text: str) -> None:
        self.chunk(delta(text))

    def end(self) -> None:
        self.chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        self.send(b"0\r\n\r\n")

    def close(self) -> None:
        self.transport.close()


def delta(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


def ask(model: str = "a", path: str = CHAT, headers: tuple[tuple[str, str], ...] = (), **fields: Any) -> bytes:
    """A chat request's bytes."""
    document = {"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}
    return compose_request("POST", path, document, headers)


def dropping_from(pool: ConnectionPool) -> Notify:
    """Closes the connections to a serve that requests are no longer sent to."""

    def notify(event: Event) -> None:
        if isinstance(event, ServeDisconnected):
            pool.drop(event.host, event.port)

    return notify


class Stage:
    """Assembles everything; `asked()` is the next request that reaches the model."""

    def __init__(
        self,
        front: dict[str, Any],
        serves: tuple[Serve, ...],
        slots: tuple[Slot, ...],
        fleet: FakeFleet,
        pace: UploadPace = PACE,
        stores: bool = False,
        lingering: Lingering = LINGERING,
    ) -> None:
        self.pace = pace
        self.lingering = lingering
        self._directory = tempfile.TemporaryDirectory()
        self.responses = ResponseStore(Path(self._directory.name), LoopClock().wall)
        self.responses.configure(ResponseStorage(store=stores))
        self.front_door = ListenSettings(**front)
        self.serves = serves
        self.slots = slots
        self.fleet = fleet
        self.decisions: list[Decision] = []
        self.complaints: list[str] = []
        """What went to the log as an error, or to the loop's exception handler."""
        self.notes: list[str] = []
        """What the request path noted of serves."""
        self.is_working = False
        """Whether an engine that has not begun its answer works on it."""
        self.looks: list[str] = []
        """The serves of which that was asked."""
        self.lines: list[Talk] = []
        self.refused: Counter[tuple[str, str]] = Counter()
        """What came no further than the front door: (reason, origin)."""
        self.pool = ConnectionPool()
        self.status = SmallStatus()
        self.talks: asyncio.Queue[Talk] = asyncio.Queue()
        self._clients: list[RawClient] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.complaints.append(str(context)))
        self._log = Complaints(self.complaints)
        logging.getLogger().addHandler(self._log)
        self.model = await loop.create_server(lambda: Talk(self.talks, self.lines), "127.0.0.1", 0)
        self.model_port = self.model.sockets[0].getsockname()[1]
        replicas = [replica for serve in self.serves for replica in replicas_of(serve)]
        self.fleet.ports = {replica.name: self.model_port for replica in replicas} | self.fleet.ports
        self.conductor = Conductor(self.slots, replicas, self.fleet, LoopClock(), dropping_from(self.pool))
        names = Names(self.serves)
        signer = ThinkingSigner((b"key" * 11,))
        formatter = Formatter(signer, LoopClock().wall)
        self.upstream_client = UpstreamClient(
            self.conductor,
            self.pool,
            formatter,
            LoopClock(),
            lambda serve, text: self.notes.append(f"{serve}: {text}"),
            is_working=self._is_working,
        )
        settings = FlowSettings(self.front_door, names)
        turns = ResponseTurns(self.responses, LoopClock().wall, SummarySeals(signer))
        self.usage = UsageTotals(LoopClock().wall)
        self.flow = Flow(settings, self.upstream_client, LoopClock(), self.decisions.append, self.usage, turns)
        self.door = AccessControl(self.front_door, Keyring(steady=LoopClock().wall))  # no minute ends
        front = HttpApi(self.flow, self.door, self.endpoints(), self._count)
        self.state = ServerState()
        self._server = await loop.create_server(
            lambda: WireProtocol(front, self.state, self.pace, self.lingering), "127.0.0.1", 0
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def endpoints(self) -> Endpoints:
        """What answers everything but inference."""
        pages = StoredResponses(self.responses, LoopClock().wall)
        return Endpoints(SmallAdmin(), self.status, SmallModels(), responses=pages)  # type: ignore[arg-type]

    async def _is_working(self, serve: str) -> bool:
        self.looks.append(serve)
        return self.is_working

    def _count(self, reason: str, origin: str) -> None:
        self.refused[reason, origin] += 1

    async def client(self, **options: Any) -> RawClient:
        client = RawClient(self.port, timeout=PATIENCE, **options)
        await client.connect()
        self._clients.append(client)
        return client

    async def asked(self) -> Talk:
        async with asyncio.timeout(PATIENCE):
            return await self.talks.get()

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        """Waits for what no event tells. Raises AssertionError when it does not come."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, f"never came: {what} active={self.flow.active} {self.left()}"
            await asyncio.sleep(0.001)

    def left(self) -> dict[str, int]:
        """What is held; all zero once everything has ended."""
        seats = self.conductor.scheduler.serves.values()
        return {
            **self.conductor.statistics(),
            "active": len(self.flow.active),
            "bodies": self.flow.bodies.held,
            "seated": sum(len(seat.leases) + len(seat.queue) for seat in seats),
            "callers": self.door.active,
            "upstream calls": sum(not line.gone.is_set() for line in self.lines) - len(self.pool.idle_connections()),
        }

    async def quiet(self) -> None:
        await self.until(lambda: not any(self.left().values()), "quiet")

    async def sealed(self) -> Decision:
        """The only decision so far."""
        await self.until(lambda: self.decisions, "a decision")
        (decision,) = self.decisions
        return decision

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.quiet()
        finally:
            for client in self._clients:
                await client.close()
            self._server.close()
            self.pool.close()
            for line in self.lines:
                line.close()
            if error is None:
                await self.until(lambda: not self.state.connections and not self.state.tasks, "all tasks")
                await self.until(lambda: all(line.gone.is_set() for line in self.lines), "all lines")
            await self.conductor.close(False)
            self.model.close()
            self.responses.close()
            self._directory.cleanup()
            logging.getLogger().removeHandler(self._log)
        if error is None:
            assert self.complaints == []


class Complaints(logging.Handler):
    def __init__(self, to: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._to = to

    def emit(self, record: logging.LogRecord) -> None:
        self._to.append(record.getMessage() + (f": {record.exc_info[1]!r}" if record.exc_info else ""))


Story = Callable[[Stage], Coroutine[Any, Any, None]]


def story(
    *serves: Serve,
    slots: tuple[Slot, ...] = (),
    fleet: Callable[[], FakeFleet] = FakeFleet,
    plain: bool = False,
    pace: UploadPace = PACE,
    stores: bool = False,
    lingering: Lingering = LINGERING,
    **front: Any,
) -> Callable[[Story], Callable[[], None]]:
    """Runs a story on a stage of its own, on uvloop as in production (`plain`: on asyncio's own loop). `stores`: it
    stores responses.
    """

    def decorate(tell: Story) -> Callable[[], None]:
        async def played() -> None:
            stage = Stage(front, serves or (a_serve(),), slots, fleet(), pace, stores, lingering)
            async with stage, asyncio.timeout(40):
                await tell(stage)

        def run() -> None:
            with asyncio.Runner(loop_factory=None if plain else uvloop.new_event_loop) as runner:
                runner.run(played())

        run.__name__, run.__doc__ = tell.__name__, tell.__doc__
        return run

    return decorate


def a_serve(name: str = "a", **fields: Any) -> Serve:
    return Serve(name, **{"served_name": "engine", "max_active": 2, "queue": 4, **fields})


# -- the stage itself ------------------------------------------------------------------------------------------------


@story()
async def test_a_request_goes_all_the_way_and_back(stage: Stage) -> None:
    client = await stage.client()
    await client.send(ask())
    talk = await stage.asked()
    assert talk.json()["model"] == "engine"
    talk.reply({"ok": 1, "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
    reply = await client.reply()
    assert (reply.status, reply.json()["ok"]) == (200, 1)
    assert reply.header("x-stoker-serve") == "a"
    assert reply.header("x-stoker-translation") == "model"
    decision = await stage.sealed()
    assert (decision.outcome, decision.status, decision.serve, decision.input_tokens) == ("served", 200, "a", 3)
    assert reply.header("x-request-id") == decision.id


def test_the_stage_sees_a_lease_that_is_left() -> None:
    async def tell() -> None:
        async with Stage({}, (a_serve(),), (), FakeFleet()) as stage:
            got = stage.conductor.acquire("a")
            lease = await got if isinstance(got, asyncio.Future) else got
            assert stage.left()["leases"] == 1
            lease.release()
            assert not any(stage.left().values())

    asyncio.run(tell())


def test_the_stage_sees_an_error_in_the_log() -> None:
    async def tell() -> None:
        async with Stage({}, (a_serve(),), (), FakeFleet()):
            logging.getLogger("stoker.flow").error("broke")

    with pytest.raises(AssertionError, match="broke"):
        asyncio.run(tell())
