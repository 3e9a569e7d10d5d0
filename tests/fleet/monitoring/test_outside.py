"""External serves that run are found before anybody asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stoker.domain.serve import Driver, Serve, Translation
from stoker.domain.serve_phase import ServePhase
from stoker.fleet import monitoring as outside
from stoker.fleet.monitoring import ExternalServeFinder
from stoker.fleet.swapping.conductor import Conductor
from stoker_lab.testing.clock import FakeClock
from stoker_lab.testing.fleet import FakeFleet

NEAR = Serve("near", driver=Driver.EXTERNAL, base_url="http://gpu-box:8000/v1")
CLOUD = Serve("cloud", driver=Driver.EXTERNAL, base_url="https://x.example.com/v1", translation=Translation(cloud=True))
OWN = Serve("own")


class Story:
    def __init__(self) -> None:
        self.conductor = Conductor((), (NEAR, CLOUD, OWN), FakeFleet(), FakeClock())
        self.there: set[str] = set()
        self.looks: list[str] = []
        self.outside = ExternalServeFinder(self.conductor, self._is_there)

    async def _is_there(self, serve: Serve) -> bool:
        self.looks.append(serve.name)
        return serve.name in self.there

    def phase(self, name: str) -> ServePhase:
        return self.conductor.scheduler.serves[name].phase

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(3):
            while not holds():
                await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "EVERY", 0.001)


def story(tell: Callable[[Story], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    async def played() -> None:
        one = Story()
        one.outside.configure((NEAR, CLOUD, OWN))
        looking = asyncio.get_running_loop().create_task(one.outside.run())
        try:
            await tell(one)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await one.conductor.close(False)

    def run() -> None:
        asyncio.run(played())

    run.__name__ = tell.__name__
    return run


@story
async def test_one_that_runs_is_shown_as_running_and_clouds_and_own_serves_are_left_alone(one: Story) -> None:
    one.there = {"near", "cloud", "own"}
    await one.until(lambda: one.phase("near") is ServePhase.READY)
    assert (one.phase("cloud"), one.phase("own"), set(one.looks)) == (ServePhase.STOPPED, ServePhase.STOPPED, {"near"})


@story
async def test_one_that_comes_later_is_found_then_and_looked_for_no_more(one: Story) -> None:
    await one.until(lambda: len(one.looks) > 3)
    assert one.phase("near") is ServePhase.STOPPED
    one.there = {"near"}
    await one.until(lambda: one.phase("near") is ServePhase.READY)
    looks = len(one.looks)
    await asyncio.sleep(0.02)
    assert len(one.looks) == looks


@story
async def test_one_that_was_lost_is_looked_for_again_and_one_that_was_taken_down_is_not(one: Story) -> None:
    one.there = {"near"}
    await one.until(lambda: one.phase("near") is ServePhase.READY)
    await one.conductor.unload("near")
    await asyncio.sleep(0.02)
    assert one.phase("near") is ServePhase.STOPPED, "the operator wants it so"
    one.outside.on_lost("near")
    await one.until(lambda: one.phase("near") is ServePhase.READY)


@story
async def test_one_that_is_held_is_left_as_it_is(one: Story) -> None:
    one.conductor.set_held("near", True)
    one.there = {"near"}
    await asyncio.sleep(0.02)
    assert one.phase("near") is ServePhase.STOPPED
