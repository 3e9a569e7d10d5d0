"""An engine on several machines: one job per rank, that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from stoker.fleet.drivers.process_group import describe_exit
from stoker_ray.job_unit import JobUnit

RankStart = Callable[[Callable[[int | None], None], Callable[[], None]], JobUnit]
"""Watches the job of one rank: `(on_exit, on_gone)` as in `UnitDriver.attach`."""


class RankGroup:
    """Implements `drivers.unit.Unit` for the jobs of all ranks. The first that ends is the end of all."""

    def __init__(
        self,
        ranks: Sequence[RankStart],
        hosts: Sequence[str],
        on_exit: Callable[[int | None], None],
        on_gone: Callable[[], None],
    ) -> None:
        self.pid: int | None = None
        self.code: int | None = None
        self.ended_how = ""
        self._hosts = hosts
        self._on_exit = on_exit
        self._on_gone = on_gone
        self._left = set(range(len(ranks)))
        self._has_told = False
        self._ends: asyncio.Task[None] | None = None
        self._units = [
            watch(partial(self._exited, number), partial(self._gone, number)) for number, watch in enumerate(ranks)
        ]
        self.slot = self._units[0].slot

    @property
    def is_ending(self) -> bool:
        return any(unit.is_ending for unit in self._units)

    @property
    def why_not_gone(self) -> str:
        """See `JobUnit.why_not_gone`; of the first rank that is left."""
        number = min(self._left, default=0)
        return f"rank {number}: {self._units[number].why_not_gone}"

    def on_ready(self) -> None:
        """See `Unit`. Only rank 0 answers."""
        self._units[0].on_ready()

    async def end(self, grace: float) -> None:
        """See `JobUnit.end`: all ranks at once."""
        for failure in await asyncio.gather(*(unit.end(grace) for unit in self._units), return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """See `JobUnit.begin_end`: all ranks at once."""
        if self._ends is None:
            tasks = [task for unit in self._units if (task := unit.begin_end(grace)) is not None]
            if tasks:
                self._ends = asyncio.get_running_loop().create_task(_all(tasks), name="end-ranks")
        return None if self._ends is None or self._ends.done() else self._ends

    def release(self) -> None:
        """See `Unit`."""
        if self._ends is not None:
            self._ends.cancel()
        for unit in self._units:
            unit.release()

    def _exited(self, number: int, code: int | None) -> None:
        if self._has_told:
            return
        self._has_told = True
        unit = self._units[number]
        self.code = code
        if not unit.is_ending:
            how = unit.ended_how or describe_exit(code)
            self.ended_how = f"lost rank {number} on node {self._hosts[number]}: it {how}"
        self._on_exit(code)

    def _gone(self, number: int) -> None:
        self._left.discard(number)
        if not self._left:
            self._on_gone()


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)
