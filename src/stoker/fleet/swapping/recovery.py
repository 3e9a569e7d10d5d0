"""Finishes or undoes the swaps that an earlier run of Stoker began and did not end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from stoker.domain.errors import StokerError
from stoker.domain.protocols import Journal, SwapEntry
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.scheduler import Scheduler

log = logging.getLogger("stoker.fleet")


class NoJournal:
    """For a fleet without crash recovery."""

    async def begin(self, swap: SwapEntry) -> None: ...

    def end(self, swap: SwapEntry) -> None: ...

    def unfinished(self) -> list[SwapEntry]:
        return []


class Recovery:
    """Owned by the conductor. `switch(name)` makes a serve resident; it raises StokerError."""

    def __init__(self, scheduler: Scheduler, journal: Journal, switch: Callable[[str], Awaitable[object]]) -> None:
        self._scheduler = scheduler
        self._journal = journal
        self._switch = switch
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Start the recovery. Call it when all serves that still run are adopted."""
        for swap in self._journal.unfinished():
            task = asyncio.get_running_loop().create_task(self._recover(swap), name=f"recover-{swap.slot}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def tasks(self) -> list[asyncio.Task[None]]:
        """The recoveries under way, for cancelling them. The journal keeps what they did not finish."""
        return list(self._tasks)

    async def _recover(self, swap: SwapEntry) -> None:
        """Finish an interrupted swap; if that is not possible, undo it.

        1. the target or a victim runs or is starting: the swap had succeeded, or was undone: nothing to do
        2. the target is still configured: start it
        3. the target is not configured any more, or did not start: start the first configured victim that starts
        """
        names = (swap.target, *swap.victims)
        found = [state for name in names if (state := self._scheduler.serves.get(name)) is not None]
        if all(state.phase is ServePhase.STOPPED for state in found):
            for name in names:
                if name not in self._scheduler.serves:
                    text = "the swap of slot %s to %s was interrupted: %s is not started, it is not configured any more"
                    log.warning(text, swap.slot, swap.target, name)
                elif await self._is_started(name, swap):
                    break
        self._journal.end(swap)

    async def _is_started(self, name: str, swap: SwapEntry) -> bool:
        log.warning("the swap of slot %s to %s was interrupted: starting %s", swap.slot, swap.target, name)
        try:
            await self._switch(name)
        except StokerError as error:
            log.error("after an interrupted swap, serve %s did not start: %s", name, error.message)
            return False
        return True
