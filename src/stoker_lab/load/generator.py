"""Sends requests: from N clients, each sending one after the other, or at scheduled times.

The clock is passed in, so that tests control it. Results are appended as they arrive: a cancelled caller keeps them.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from stoker_lab.load.figures import StepSample
from stoker_lab.requests.timing import RequestTiming, Window
from stoker_lab.statistics.stats import percentile

SendRequest = Callable[[int, float | None], Awaitable[RequestTiming]]
"""`send(number, due)`: sends request `number` (from 0, the warm-up included) and reads the whole reply. `due`: when an
open-loop request should be sent; None: closed loop. Raises only CancelledError."""
MAX_LAG_SHARE = 0.1
"""Of the mean time between arrivals: if the p99 of the lag is above it, the open-loop step is invalid."""
MAX_FAILURES_IN_A_ROW = 6
"""A step is given up after this many failures in a row, plus two per client: its server is gone."""


class LoadClock(NamedTuple):
    """Seconds, and waiting for them."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


REAL_CLOCK = LoadClock()


class StepLength(NamedTuple):
    """How long a step is measured: at least `seconds`, and until `requests` were started."""

    seconds: float = 30.0
    requests: int = 10
    max_requests: int | None = None
    """No request is started beyond; None: as many as the time takes."""


class StepRequests:
    def __init__(self) -> None:
        self.warm: list[RequestTiming] = []
        """Timings of the warm-up, which no figure uses."""
        self.requests: list[RequestTiming] = []
        self.begin: float | None = None
        self.stopped: float | None = None
        """When the last request was started."""
        self.has_given_up = False

    def sample(self, now: float) -> StepSample:
        begin = now if self.begin is None else self.begin
        return StepSample(self.requests, Window(begin, now if self.stopped is None else self.stopped))


async def run_closed_loop(
    send: SendRequest, clients: int, warm_up: int, length: StepLength, sent: StepRequests,
    clock: LoadClock = REAL_CLOCK, on_request: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """`clients` at once, each sending its next request when its last has ended. On cancel all connections close."""
    warming, serial = iter(range(warm_up)), count(warm_up)
    await _side_by_side(clients, lambda: _warm(send, warming, sent))
    started = failed = 0
    sent.begin = clock.now()

    def may_start() -> bool:
        if sent.stopped is None:
            is_long = clock.now() - (sent.begin or 0.0) >= length.seconds and started >= length.requests
            sent.has_given_up = failed >= MAX_FAILURES_IN_A_ROW + 2 * clients
            if is_long or sent.has_given_up or started == length.max_requests:
                sent.stopped = clock.now()
        return sent.stopped is None

    async def client() -> None:
        nonlocal started, failed
        while may_start():
            started += 1
            timed = await send(next(serial), None)
            sent.requests.append(timed)
            failed = 0 if timed.is_ok else failed + 1
            on_request()

    await _side_by_side(clients, client)


async def run_open_loop(
    send: SendRequest,
    arrivals: Sequence[float],
    sent: StepRequests,
    clock: LoadClock = REAL_CLOCK,
    on_request: Callable[[], None] = lambda: None,
) -> None:
    """Request N at `arrivals[N]` seconds from now, however many are under way. Times of a request count from when it
    should have been sent, so that a client that comes too late hides nothing."""
    sent.begin = begin = clock.now()

    async def send_one(number: int, due: float) -> None:
        sent.requests.append(await send(number, due))
        on_request()

    async with asyncio.TaskGroup() as group:
        for number, offset in enumerate(arrivals):
            while (left := begin + offset - clock.now()) > 0:
                await clock.sleep(left)
            group.create_task(send_one(number, begin + offset))
        sent.stopped = clock.now()


def poisson_arrivals(rate: float, seconds: float, seed: int = 0, at_least: int = 1) -> list[float]:
    """Arrivals of a Poisson process of `rate` per second: exponential gaps; for `seconds`, and at least `at_least` of
    them."""
    draw = random.Random(seed)
    found: list[float] = []
    at = 0.0
    while at < seconds or len(found) < at_least:
        found.append(at)
        at += -math.log(1.0 - draw.random()) / rate
    return found


def is_punctual(requests: Sequence[RequestTiming], rate: float) -> bool:
    """Whether the requests were sent when they should have been: else the step says nothing about this rate."""
    lag = percentile([one.lag for one in requests], 0.99)
    return lag is None or lag <= MAX_LAG_SHARE / rate


async def _warm(send: SendRequest, numbers: Iterator[int], sent: StepRequests) -> None:
    for number in numbers:
        sent.warm.append(await send(number, None))


async def _side_by_side(clients: int, work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await work()

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(run())
