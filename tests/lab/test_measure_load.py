"""Closed loop and open loop, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from stoker_lab.load.generator import (
    MAX_FAILURES_IN_A_ROW,
    LoadClock,
    StepLength,
    StepRequests,
    is_punctual,
    poisson_arrivals,
    run_closed_loop,
    run_open_loop,
)
from stoker_lab.requests.timing import RequestTiming


class World:
    """Time that passes in sleeps only. Each request takes `takes(number)` seconds, or fails at once."""

    def __init__(self, takes: Callable[[int], float] = lambda n: 1.0, late: float = 0.0) -> None:
        self.now = 100.0
        self.takes, self.late = takes, late
        self.sent: list[tuple[int, float, float | None]] = []
        self.under_way = self.most = 0
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []
        self.time = LoadClock(lambda: self.now, self.sleep)

    async def sleep(self, seconds: float) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append((self.now + seconds, mine))
        await mine

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Whenever everybody waits, the next one's time comes."""

        async def drive() -> None:
            done = asyncio.gather(work)
            while not done.done():
                for _ in range(20):
                    await asyncio.sleep(0)
                if self._waiting and not done.done():
                    self._waiting.sort(key=lambda pair: pair[0])
                    until, other = self._waiting.pop(0)
                    self.now = max(self.now, until)
                    other.set_result(None)
            await done

        asyncio.run(drive())

    async def ask(self, number: int, moment: float | None) -> RequestTiming:
        begun = self.now + (self.late if moment is not None else 0.0)
        self.sent.append((number, self.now, moment))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        seconds = self.takes(number)
        try:
            if seconds > 0:
                await self.sleep(seconds)
            return RequestTiming(
                begun if moment is None else moment, begun, self.now, failure="" if seconds > 0 else "gone"
            )
        finally:
            self.under_way -= 1


def test_so_many_clients_no_more_and_the_warm_up_does_not_count() -> None:
    world, sent = World(), StepRequests()
    world.run(run_closed_loop(world.ask, 3, 6, StepLength(10.0, 1), sent, world.time))
    assert world.most == 3
    assert (len(sent.warm), sent.begin) == (6, 102.0)
    assert sent.stopped == 112.0
    assert len(sent.requests) == 30
    assert sent.sample(world.now).window == (102.0, 112.0)
    assert len({number for number, _, _ in world.sent}) == 36


def test_a_step_goes_on_until_it_has_requests_enough() -> None:
    world, sent = World(), StepRequests()
    world.run(run_closed_loop(world.ask, 1, 0, StepLength(2.0, 7), sent, world.time))
    assert len(sent.requests) == 7


def test_a_step_never_starts_more_than_it_may() -> None:
    world, sent = World(), StepRequests()
    world.run(run_closed_loop(world.ask, 2, 0, StepLength(1000.0, 1, max_requests=5), sent, world.time))
    assert len(sent.requests) == 5


def test_a_failed_request_is_kept_and_the_loop_goes_on() -> None:
    world, sent = World(lambda n: 0.0 if n == 3 else 1.0), StepRequests()
    world.run(run_closed_loop(world.ask, 1, 0, StepLength(0.0, 8), sent, world.time))
    assert [one.is_ok for one in sent.requests].count(False) == 1
    assert len(sent.requests) == 8
    assert not sent.has_given_up


def test_a_server_that_is_gone_is_given_up_and_what_it_did_before_is_kept() -> None:
    world, sent = World(lambda n: 1.0 if n < 5 else 0.0), StepRequests()
    world.run(run_closed_loop(world.ask, 2, 0, StepLength(1000.0, 1), sent, world.time))
    assert sent.has_given_up
    assert sum(one.is_ok for one in sent.requests) == 5
    assert MAX_FAILURES_IN_A_ROW <= sum(not one.is_ok for one in sent.requests) <= MAX_FAILURES_IN_A_ROW + 2 * 2 + 1


def test_whoever_is_cancelled_keeps_what_was_heard() -> None:
    world, sent = World(lambda n: 1.0 if n < 4 else 1e9), StepRequests()

    async def run() -> None:
        async with asyncio.timeout(0.2):
            await run_closed_loop(
                world.ask, 1, 0, StepLength(1e9, 1), sent, LoadClock(lambda: world.now, asyncio.sleep)
            )

    world.sleep = lambda seconds: asyncio.sleep(0 if seconds == 1.0 else 60)  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        asyncio.run(run())
    assert len(sent.requests) == 4


def test_an_open_loop_sends_at_its_times_however_many_are_under_way() -> None:
    world, sent = World(lambda n: 50.0), StepRequests()
    world.run(run_open_loop(world.ask, [0.0, 1.0, 1.5, 4.0], sent, world.time))
    assert [at for _, at, _ in world.sent] == [100.0, 101.0, 101.5, 104.0]
    assert [moment for _, _, moment in world.sent] == [100.0, 101.0, 101.5, 104.0]
    assert world.most == 4
    assert sent.stopped == 104.0
    assert is_punctual(sent.requests, rate=1.0)


def test_an_open_loop_that_lags_knows_it() -> None:
    world, sent = World(late=0.3), StepRequests()
    world.run(run_open_loop(world.ask, [0.0, 1.0, 2.0], sent, world.time))
    assert {round(one.lag, 6) for one in sent.requests} == {0.3}
    assert not is_punctual(sent.requests, rate=1.0)
    assert is_punctual(sent.requests, rate=0.3)


def test_poisson_arrivals_have_the_rate_and_the_same_seed_gives_the_same() -> None:
    found = poisson_arrivals(5.0, 400.0, seed=1)
    assert len(found) / 400.0 == pytest.approx(5.0, rel=0.1)
    assert found == sorted(found) == poisson_arrivals(5.0, 400.0, seed=1)
    assert found != poisson_arrivals(5.0, 400.0, seed=2)
    gaps = [after - before for before, after in pairwise(found)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread / mean == pytest.approx(1.0, rel=0.1)  # exponential: as wide as it is long
    assert len(poisson_arrivals(0.1, 1.0, at_least=4)) == 4
