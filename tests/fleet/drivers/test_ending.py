"""A unit is ended once, whoever asks."""

from __future__ import annotations

import asyncio
import logging

import pytest

from stoker.domain.errors import StokerError
from stoker.fleet.drivers.unit import Termination


class Work:
    """Ends nothing until it may; then fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.may = asyncio.Event()
        self.begun = 0
        self.gone = 0
        self._failures = failures
        self.ending = Termination("unit u", self._end, self._on_gone, logging.getLogger("test"))

    async def _end(self) -> None:
        self.begun += 1
        await self.may.wait()
        if self.begun <= self._failures:
            raise StokerError("it hangs", code="unkillable")

    def _on_gone(self) -> None:
        self.gone += 1


def test_later_calls_join_the_first_and_may_only_shorten_its_grace() -> None:
    async def story() -> None:
        work = Work()
        task = work.ending.begin_end(10)
        soon = work.ending.kill_at
        assert work.ending.begin_end(20) is task
        assert work.ending.kill_at == soon
        assert work.ending.begin_end(0) is task
        assert work.ending.kill_at < soon
        work.may.set()
        await work.ending.end(0)
        assert (work.begun, work.gone) == (1, 1)
        assert work.ending.begin_end(0) is None, "it is gone"

    asyncio.run(story())


def test_what_could_not_be_ended_is_told_and_may_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        work = Work(failures=1)
        work.may.set()
        with pytest.raises(StokerError, match="it hangs"):
            await work.ending.end(0)
        assert work.gone == 0
        assert "unit u: it hangs" in caplog.text
        await work.ending.end(0)
        assert (work.begun, work.gone) == (2, 1)

    asyncio.run(story())


def test_who_is_cancelled_leaves_when_everything_is_gone() -> None:
    async def story() -> None:
        work = Work()
        waiting = asyncio.get_running_loop().create_task(work.ending.end(0))
        while not work.begun:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done()
        work.may.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert work.gone == 1

    asyncio.run(story())
