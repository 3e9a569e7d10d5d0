"""How long a benchmark still takes, from what was measured: within a factor of two of what it then takes."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from stoker_lab.load.generator import LoadClock, StepRequests, run_closed_loop
from stoker_lab.load.presets import BenchmarkOptions, Preset, clients_step, plan_benchmark, token_sizes
from stoker_lab.load.prompts import PromptSharing
from stoker_lab.load.step_times import StepTimes
from stoker_lab.requests.timing import RequestTiming


@dataclass
class Simulation:
    """Time that passes only in waiting, for tasks that wait for nothing else."""

    at: float = 0.0
    _waiting: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> Awaitable[object]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (self.at + seconds, len(self._waiting) + id(future), future))
        return future

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work)
            while not task.done():
                for _ in range(50):
                    await asyncio.sleep(0)
                if self._waiting and not task.done():
                    self.at, _, future = heapq.heappop(self._waiting)
                    future.set_result(None)


async def took(seconds: float, clients: int, scaling: float, wanted: BenchmarkOptions) -> float:
    """Of a step, at an engine whose requests take `seconds` alone, and `clients ** scaling` times as long together."""
    time = Simulation()
    step = clients_step(wanted, clients, *token_sizes(wanted, None), PromptSharing.WARM)

    async def send(number: int, due: float | None) -> RequestTiming:
        begun = time.now()
        await time.sleep(seconds * clients**scaling)
        return RequestTiming(begun, begun, time.now(), 200)

    clock = LoadClock(time.now, time.sleep)
    await time.run(run_closed_loop(send, clients, step.warm_up, step.length, StepRequests(), clock))
    return time.at


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("scaling", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seconds", [0.05, 1.0, 8.0])
def test_a_step_takes_about_as_long_as_the_first_request_and_the_step_before_it_say(
    seconds: float, scaling: float, quick: bool
) -> None:
    wanted = BenchmarkOptions(quick=quick, seconds=None if quick else 5.0)
    times, clients = StepTimes(), 1
    times.on_request(seconds, token_sizes(wanted, None)[1])
    while clients <= 8:
        step = clients_step(wanted, clients, *token_sizes(wanted, None), PromptSharing.WARM)
        real = asyncio.run(took(seconds, clients, scaling, wanted))
        expected = times.expected(step)
        assert expected is not None
        assert real / 2 <= expected <= real * 2, (clients, real, expected)
        sent = round(real / (seconds * clients**scaling) * clients)
        times.on_step(step, sent, real)
        clients *= 2


def test_longer_answers_take_longer_in_proportion() -> None:
    wanted = BenchmarkOptions(preset=Preset.DECODE, quick=True)
    times = StepTimes()
    times.on_request(1.0, 256)
    short, _, long = (times.expected(step) or 0.0 for step in plan_benchmark(wanted).steps)
    assert long == pytest.approx(4 * short)


def test_nothing_is_said_before_anything_was_measured() -> None:
    assert StepTimes().expected(plan_benchmark(BenchmarkOptions(preset=Preset.SHORT)).steps[0]) is None
