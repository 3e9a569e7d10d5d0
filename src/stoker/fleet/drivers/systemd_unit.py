"""One start of a systemd unit: notices its end at once, and ends it on request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from stoker.domain.errors import StokerError
from stoker.fleet.drivers.exit_watch import ExitWatch
from stoker.fleet.drivers.termination import UNKILLABLE_AFTER, Termination, finish
from stoker.fleet.systemd import unit_states
from stoker.fleet.systemd.systemctl import Systemctl, SystemdFailed
from stoker.fleet.systemd.unit_states import UnitStatus

EXIT_POLL_INTERVAL = 0.02
"""Seconds between two checks of a unit whose main process has just ended."""
LEARN_WITHIN = 1.0
"""Seconds that the exit code may take to reach systemd; after that it counts as unknown."""
POLL_INTERVAL = 1.0
"""Seconds between two checks of a unit whose processes are not visible from here."""


class SystemdUnit:
    """Implements `drivers.unit.Unit` for one start of a unit. `pid` 0: its processes are not visible from here."""

    ended_how = ""

    def __init__(
        self,
        systemctl: Systemctl,
        unit: str,
        pid: int,
        on_exit: Callable[[int | None], None],
        on_gone: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self.pid = pid or None
        self.code: int | None = None
        self._systemctl = systemctl
        self._unit = unit
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._has_told = False
        self._is_late = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._ending = Termination(unit, self._end, on_gone, log)
        self._following: asyncio.Task[None] | None = None
        self._watch: ExitWatch | None = None
        if pid:
            self._watch = ExitWatch(pid, lambda _: self._follow(EXIT_POLL_INTERVAL, LEARN_WITHIN))
        else:
            self._follow(POLL_INTERVAL, float("inf"))

    def on_ready(self) -> None:
        """Nothing changes: its process is watched."""

    async def end(self, grace: float) -> None:
        """`systemctl stop`, `grace` seconds, SIGKILL to all of it; returns when systemd reports that nothing is left.

        A second call joins the first and may shorten its grace. On cancel it goes on, and CancelledError leaves this
        call when everything is gone. Raises StokerError: `systemd_failed` if systemd refuses, `unkillable`.
        """
        task = self.begin_end(grace)
        if task is not None:
            await finish(task)

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, but returns at once; this object owns the task. None: it is gone already."""
        task = self._ending.begin_end(grace)
        if task is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._ending.kill_at, self._is_late.set)
        return task

    def release(self) -> None:
        """Stop watching it; it runs on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.close()
        if self._following is not None:
            self._following.cancel()

    def _follow(self, pause: float, limit: float) -> None:
        self._following = self._loop.create_task(self._wait_until_down(pause, limit), name=f"follow-{self._unit}")

    async def _wait_until_down(self, pause: float, limit: float) -> None:
        """Asks systemd until the main process has ended, at most for `limit` seconds. Then calls `on_exit`."""
        until = self._loop.time() + limit
        status = UnitStatus()
        while self._loop.time() < until:
            with contextlib.suppress(SystemdFailed):  # busy, or being restarted itself: it is asked again
                status = await self._systemctl.show(self._unit)
                if not status.is_up or (self.pid is not None and status.pid != self.pid):
                    break
            await asyncio.sleep(pause)
        self._report_exit(status.code)

    def _report_exit(self, code: int | None) -> None:
        if not self._has_told:
            self._has_told = True
            self.code = code
            self._on_exit(code)

    async def _end(self) -> None:
        stopping = self._loop.create_task(self._systemctl.stop(self._unit), name=f"stop-{self._unit}")
        waiting = self._loop.create_task(self._is_late.wait(), name=f"grace-{self._unit}")
        try:
            await asyncio.wait([stopping, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                with contextlib.suppress(SystemdFailed):  # nothing to kill; the status below tells why
                    await self._systemctl.kill(self._unit)
                await asyncio.wait([stopping], timeout=UNKILLABLE_AFTER)
            if not stopping.done():
                raise self._unkillable()
            status = await self._systemctl.show(self._unit)
            if status.is_up:
                stopping.result()
                stop = f"`{self._systemctl} stop {self._unit}`"
                raise SystemdFailed(f"{stop} succeeded, but the unit is {status.words}: look at its status")
            if status.active is unit_states.ActiveState.FAILED:
                await self._systemctl.reset(self._unit)
        finally:
            stopping.cancel()
            waiting.cancel()
            await asyncio.wait([stopping, waiting])
        self.release()
        if self._following is not None:
            await asyncio.wait([self._following])
        self._report_exit(status.code)

    def _unkillable(self) -> StokerError:
        return StokerError(
            f"{self._unit} survives SIGKILL: a process of it hangs in the kernel; look at `dmesg` and at "
            f"`{self._systemctl} status {self._unit}`, a restart of the machine may be needed",
            code="unkillable",
        )
