"""A local process in a session and process group of its own, from spawn to the last member of the group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from stoker.domain.errors import StokerError
from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.process_group import ExitWatch, reap
from stoker.fleet.drivers.unit import POLL_INTERVAL, UNKILLABLE_AFTER, Termination


def spawn(argv: Sequence[str], environment: Mapping[str, str], directory: str, output: int) -> int:
    """Spawns a session leader and returns its pid; both its outputs go to the descriptor `output`. Raises OSError.

    Call it in the loop's thread: a parent-death signal is tied to the thread that created the child.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=directory,
        env=dict(environment),
        start_new_session=True,
        close_fds=True,
    )
    # The pidfd notices its end and `reap` collects it, so Popen must neither wait for it nor warn that it lives.
    child.returncode = 0
    return child.pid


class Stopper(Protocol):
    """A way to end a process other than SIGTERM."""

    async def run(self, exited: asyncio.Event, until: Callable[[], float]) -> None:
        """Tries to end the process; returns when it has `exited`, when that fails, or at `until()`. Never raises."""


class LocalProcess:
    """One process, a child or not, that is watched and can be ended.

    `on_exit(code)` is called once when the leader ends, requested or not; see ExitWatch for `code`. It has to call
    `begin_end`, which also ends the rest of the group. `on_gone()` is called once, when `end` is done. Raises
    ProcessLookupError if it is gone already.
    """

    ended_how = ""

    def __init__(
        self,
        pid: int,
        on_exit: Callable[[int | None], None],
        on_gone: Callable[[], None],
        log: logging.Logger,
        stopper: Stopper | None = None,
    ) -> None:
        self.pid = pid
        self._stopper = stopper
        self.exited = asyncio.Event()
        self.code: int | None = None
        self._on_exit = on_exit
        self._watch = ExitWatch(pid, self._ended)
        self._ending = Termination(f"process group {pid}", self._end, on_gone, log)

    def on_ready(self) -> None:
        """Nothing changes: its process is watched."""

    async def end(self, grace: float) -> None:
        """Sends SIGTERM to the group, after `grace` seconds SIGKILL; returns when the group is empty. A stopper runs
        before that, for at most `grace` seconds; not if `grace` is 0.

        A second call joins the first and may shorten its grace. On cancel it goes on, and CancelledError leaves this
        call when everything is gone. Raises StokerError `unkillable` for a process that survives SIGKILL for a minute.
        """
        await self._ending.end(grace)

    def begin_end(self, grace: float) -> asyncio.Task[None] | None:
        """As `end`, but returns at once; this object owns the task. None: it is gone already."""
        return self._ending.begin_end(grace)

    def release(self) -> None:
        """Stop watching it; it runs on."""
        self._watch.close()

    def _ended(self, code: int | None) -> None:
        self.code = code
        self.exited.set()
        self._on_exit(code)

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        killed_at: float | None = None
        if self._stopper is not None:
            await self._stop_by(self._stopper)
        if loop.time() < self._ending.kill_at:
            process_group.send(self.pid, signal.SIGTERM)
        while not self.exited.is_set() or process_group.members(self.pid):
            now, kill_at = loop.time(), self._ending.kill_at
            if now >= kill_at:
                # Again in each round: a process may have forked between the list and the signal.
                process_group.send(self.pid, signal.SIGKILL)
                killed_at = now if killed_at is None else killed_at
                if now - killed_at > UNKILLABLE_AFTER:
                    raise self._unkillable()
            await self._pause(POLL_INTERVAL if kill_at <= now else min(POLL_INTERVAL, kill_at - now))
        reap(self.pid)

    async def _stop_by(self, stopper: Stopper) -> None:
        """Runs the stopper. If the process survives it, its grace starts again, unless a caller shortened it."""
        loop, kill_at = asyncio.get_running_loop(), self._ending.kill_at
        grace = kill_at - loop.time()
        if grace <= 0 or self.exited.is_set():
            return
        await stopper.run(self.exited, lambda: self._ending.kill_at)
        if self._ending.kill_at == kill_at:
            self._ending.renew(grace)

    async def _pause(self, seconds: float) -> None:
        """Waits for at most `seconds`; ends early when the leader ends."""
        if self.exited.is_set():
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.exited.wait()

    def _unkillable(self) -> StokerError:
        left = ", ".join(str(pid) for pid in process_group.members(self.pid))
        return StokerError(
            f"process {left} survives SIGKILL: it hangs in the kernel; look at `dmesg` and at its devices, "
            "a restart of the machine may be needed",
            code="unkillable",
        )


def describe_exit(code: int | None) -> str:
    """How a process ended, in words: `exited with code 1`, `was ended by SIGKILL`."""
    if code is None:
        return "exited (an earlier run of Stoker got its exit code)"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
