"""Ends a unit in one task, however many callers ask for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

POLL_INTERVAL = 0.02
"""Seconds between two checks of a unit that is ending."""
UNKILLABLE_AFTER = 60.0
"""Seconds after the first SIGKILL: a process that still lives then hangs in the kernel (a driver, a network disk)."""


class Termination:
    """`work` ends the unit and returns when nothing of it is left; then `on_gone` is called, once.

    `work` reads `kill_at`, which callers may shorten while it runs. After a failure, the next caller starts it again.
    """

    def __init__(
        self,
        whose: str,
        work: Callable[[], Coroutine[Any, Any, None]],
        on_gone: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self.kill_at = float("inf")
        """When its grace ends, by the loop's clock."""
        self._whose = whose
        self._work = work
        self._on_gone = on_gone
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._is_gone = False

    async def end(self, grace: float) -> None:
        """See `Unit.end`. A second call may shorten the grace. Raises what `work` raised."""
        task = self.begin_end(grace)
        if task is not None:
            await finish(task)

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, but returns at once; this object owns the task. None: it is gone already."""
        if self._is_gone:
            return None
        loop = asyncio.get_running_loop()
        self.kill_at = min(self.kill_at, loop.time() + grace)
        if self._task is None:
            self._task = loop.create_task(self._run(), name=f"end-{self._whose}")
            self._task.add_done_callback(self._report)
        return self._task

    def renew(self, grace: float) -> None:
        """For `work`, when it turns to a harder method: allows `grace` seconds from now. Later calls may shorten it."""
        self.kill_at = asyncio.get_running_loop().time() + grace

    async def _run(self) -> None:
        try:
            await self._work()
            self._is_gone = True
        finally:
            self._task = None
        self._on_gone()

    def _report(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._log.error("%s: %s", self._whose, failure)


async def finish(task: asyncio.Task[None]) -> None:
    """Waits for the end of `task` even if the caller is cancelled. Then raises the cancel, or the task's exception."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            cancelled = True
    failure = task.exception()
    if cancelled:
        raise asyncio.CancelledError from failure
    if failure is not None:
        raise failure
