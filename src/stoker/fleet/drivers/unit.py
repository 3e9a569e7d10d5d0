"""The protocols of drivers: how a serve is started, found again, watched and ended.

`Termination` ends a unit in one task, however many callers ask for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stoker.domain.access import Paths
from stoker.domain.cluster import Cluster
from stoker.domain.errors import StokerError
from stoker.domain.events import Notify, ignore
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.process.identity import Keys, StartRecord

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


@dataclass(frozen=True, slots=True)
class Launched:
    """A unit that was just started; nothing watches it yet."""

    record: StartRecord
    address: Target
    log: Path | None
    """None: its output is kept elsewhere, and the driver's `recent_output` fetches it."""
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What the driver of an extension is made with."""

    paths: Paths
    keys: Keys
    log: logging.Logger
    cluster_of: Callable[[str], Cluster | None]
    """The cluster of that name, as configured now; None: no cluster has that name."""
    table: Callable[[str], Any] = lambda name: None
    """A table of the configuration that an extension brought, as it is now; None: the file has none."""
    notify: Notify = ignore
    say_step: Callable[[str, str], None] = lambda serve, step: None
    """What the start of a serve does now, in words after its name (`waits for box2 to wake`); empty: nothing special.
    """


class NotGone(StokerError):
    """What was started may still run somewhere else, and its place stays used until it is known to be gone."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="still_used", status=503)


class Unit(Protocol):
    """One started process group, container or systemd unit that is watched and can be ended.

    `on_exit(code)` (given to the driver's `attach`) is called once when it ends, requested or not; it has to call
    `begin_end`. `on_gone()` is called once, when nothing of it is left.
    """

    @property
    def pid(self) -> int | None:
        """The leader's process number on this machine, which is used to measure memory; None if unknown."""

    @property
    def code(self) -> int | None:
        """The exit code; None if it runs, or the code is unknown."""

    @property
    def ended_how(self) -> str:
        """How it ended, if that is more than its code says: the rest of a sentence. Usually empty."""

    def on_ready(self) -> None:
        """It was proved ready: from now on it has to answer."""

    async def end(self, grace: float) -> None:
        """Ask it to end, wait `grace` seconds, then force it; returns when nothing is left.

        A second call joins the first. On cancel it goes on, and CancelledError leaves this call when everything is
        gone. Raises `NotGone` if it may be a while until that is known; the end goes on, and `on_gone` tells of it.
        """

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, without waiting for it. None: it is gone already."""

    def release(self) -> None:
        """Stop watching it; it runs on."""


class UnitDriver(Protocol):
    """How serves of one kind are run. Its only memory is `StartRecord`."""

    async def start_problems(self, serve: Serve) -> list[str]:
        """What prevents a start, one sentence each, with the next step. Changes nothing."""

    async def launch(
        self, serve: Serve, taken: Container[int], started_at: float, intend: Callable[[StartRecord], None]
    ) -> Launched:
        """Start it. `intend(record)` is called before anything exists, so that a crash in between leaves a trace.

        Raises StartFailed; nothing runs then. On cancel: whatever was started has ended before CancelledError leaves.
        """

    def attach(self, record: StartRecord, on_exit: Callable[[int | None], None], on_gone: Callable[[], None]) -> Unit:
        """Watches the unit of `record`. Raises ProcessLookupError if it is already gone."""

    async def find(self, record: StartRecord) -> StartRecord | None:
        """The completed record; None if its unit does not exist or is not Stoker's. Ends an interrupted launch."""

    async def recent_output(self, record: StartRecord) -> str:
        """The end of its output, for drivers without a log file; empty if it cannot be read."""
