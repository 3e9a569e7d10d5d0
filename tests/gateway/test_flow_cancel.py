"""Cancel a request at each of its awaits in turn: nothing is left, whatever it stood at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
from tests.gateway.flow_stage import LoopClock, Talk, a_serve, delta, dropping_from

from stoker.access.access_control import OPEN
from stoker.access.caller import Caller
from stoker.domain.access import ListenSettings
from stoker.domain.decision import Decision
from stoker.domain.dialect import ENDPOINTS
from stoker.domain.serve import Serve
from stoker.exchange.formatter import Formatter
from stoker.exchange.upstream_client import UpstreamClient
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.flow import Flow
from stoker.gateway.settings import FlowSettings
from stoker.request.accept.bodies import BodyBudget
from stoker.request.accept.connection import HttpExchange, InlineTask, ServerState
from stoker.request.decide.names import Names
from stoker.request.outbox import Outbox
from stoker.request.relay.pool import ConnectionPool
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker_lab.testing.fleet import FakeFleet

LIMIT = 60
"""No request here takes as many steps."""


class Client:
    """The connection of a client that sends its body in two pieces, when it is waited for, and takes everything."""

    def __init__(self, stream: bool) -> None:
        flag = b"true" if stream else b"false"
        self._pieces = [b'{"model":"a","stream":%b,' % flag, b'"filler":"%b"}' % (b"x" * 1000)]
        self.loop = asyncio.get_running_loop()
        self.transport = Transport()
        self.state = ServerState()
        self.outbox = Outbox(self.loop)
        self.bodies = BodyBudget()
        self.is_local = True
        self.is_paused = False
        self.ends = 0
        self.exchange = HttpExchange(self, "POST", b"/v1/chat/completions", [], True)  # type: ignore[arg-type]
        self.loop.call_soon(self._send)

    def _send(self) -> None:
        if self.exchange.arrival is not None:
            self.exchange.add(self._pieces.pop(0))
            self.exchange.is_whole = not self._pieces
            self.exchange.signal_arrival()
        if self._pieces and not self.ends:
            self.loop.call_soon(self._send)

    def on_replied(self, exchange: HttpExchange) -> None:
        self.ends += 1


class Transport:
    def write(self, data: bytes) -> None: ...

    def get_extra_info(self, name: str) -> None: ...


class Stepper:
    """Runs a coroutine and cancels it at the n-th suspension: before, or just as, what it waits for is done."""

    def __init__(self, work: Awaitable[None], at: int, late: bool) -> None:
        self._work = work
        self._at = at
        self._late = late
        self.cancel: Callable[[], object]
        self.steps = 0
        self.was_cancelled = False

    def __await__(self) -> Generator[Any, Any, None]:
        inner = self._work.__await__()
        try:
            waits = next(inner)
            while True:
                self.steps += 1
                if self.steps == self._at:
                    self.was_cancelled = True
                    if self._late and isinstance(waits, asyncio.Future):
                        waits.add_done_callback(lambda _: self.cancel())  # it is done, and the request not yet told
                    else:
                        asyncio.get_running_loop().call_soon(lambda: self.cancel())
                try:
                    value = yield waits
                except BaseException as error:
                    waits = inner.throw(error)
                else:
                    waits = inner.send(value)
        except StopIteration:
            return


class House:
    """The request path on a model that answers by itself."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.lines: list[Talk] = []
        self.decisions: list[Decision] = []

    async def run(self, at: int, late: bool, stream: bool, warm: bool) -> Stepper:
        loop = asyncio.get_running_loop()
        asked: asyncio.Queue[Talk] = asyncio.Queue()
        server = await loop.create_server(lambda: Talk(asked, self.lines), "127.0.0.1", 0)
        fleet = FakeFleet({self.serve.name: server.sockets[0].getsockname()[1]})
        pool = ConnectionPool()
        conductor = Conductor([], [self.serve], fleet, LoopClock(), dropping_from(pool))
        formatter = Formatter(ThinkingSigner((b"key" * 11,)), LoopClock().wall)
        upstream_client = UpstreamClient(conductor, pool, formatter, LoopClock())
        settings = FlowSettings(ListenSettings(), Names([self.serve]))
        flow = Flow(settings, upstream_client, LoopClock(), self.decisions.append)
        caller, client = Caller(OPEN), Client(stream)
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(answer(asked))
            if warm:
                await once(flow, Client(stream).exchange, caller)
                self.decisions.clear()
            stepper = Stepper(once(flow, client.exchange, caller), at, late)
            running: set[InlineTask] = set()
            turn = InlineTask(through(stepper), loop, running)
            stepper.cancel = turn.cancel
            try:
                async with asyncio.timeout(3):
                    while running:
                        await asyncio.sleep(0)
            except TimeoutError:
                pytest.fail(f"hangs after a cancel at step {at}")
            for _ in range(5):
                await asyncio.sleep(0)  # what the cancel set off: a swap under way, a connection's end
            assert conductor.statistics()["leases"] == conductor.statistics()["waiting"] == 0
            assert all(not s.leases and not s.queue for s in conductor.scheduler.serves.values())
            assert flow.active == {}
            assert caller.active == 0
            assert len(self.decisions) == client.ends == 1
            assert client.exchange.on_lost is None
            kept = {connection.transport for connection in pool.idle_connections()}
            async with asyncio.timeout(3):
                while sum(not line.gone.is_set() for line in self.lines) > len(kept):
                    await asyncio.sleep(0)
            answering.cancel()
        pool.close()
        await conductor.close(False)
        server.close()
        async with asyncio.timeout(3):
            for line in self.lines:
                await line.gone.wait()
        return stepper


async def once(flow: Flow, exchange: HttpExchange, caller: Caller) -> None:
    call = flow.open(exchange)
    await flow.serve(call, caller, ENDPOINTS["/v1/chat/completions"])


async def answer(asked: asyncio.Queue[Talk]) -> None:
    while True:
        talk = await asked.get()
        if b"input_tokens" in talk.head:
            talk.reply({"input_tokens": 5})
        elif talk.json()["stream"]:
            talk.begin()
            talk.chunk(delta("x"))
            await asyncio.sleep(0.001)
            talk.end()
        else:
            talk.reply({"ok": 1})


async def through(stepper: Stepper) -> None:
    try:
        await stepper
    except asyncio.CancelledError:
        if not stepper.was_cancelled:
            raise


@pytest.mark.parametrize("late", [False, True], ids=["while-it-waits", "as-it-is-done"])
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("serve", [a_serve(), a_serve(context=1100)], ids=["plain", "counted"])
def test_cancelled_at_any_step_nothing_is_left(serve: Serve, stream: bool, warm: bool, late: bool) -> None:
    outcomes = []
    for at in range(1, LIMIT):
        house = House(serve)
        stepper = asyncio.run(house.run(at, late, stream, warm))
        outcomes.append(house.decisions[0].outcome)
        if not stepper.was_cancelled:
            assert house.decisions[0].outcome == "served", "the run that nobody cancelled completes"
            break
    assert len(outcomes) > 3
    assert len(outcomes) < LIMIT - 1
    assert "cut" in outcomes
