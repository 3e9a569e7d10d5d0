"""A local process in a session and process group of its own, from spawn to the last member of the group.

`ExitWatch` notices the end of any process at once: a child, or one that an earlier run of Stoker started.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from stoker.domain.errors import StokerError
from stoker.fleet.drivers.unit import POLL_INTERVAL, UNKILLABLE_AFTER, Termination
from stoker.system.processes import in_group_of, is_alive

WATCH_INTERVAL = 0.05


class ExitWatch:
    """Calls `on_exit(code)` on the loop, once, when the process ends.

    `code` is the exit code, negative for a signal, None if the process is not a child. A child stays a zombie until
    `reap`, so its number, which is also its group's, is not reused before that. Raises ProcessLookupError if there is
    no such process. Without pidfds, a daemon thread polls.
    """

    def __init__(self, pid: int, on_exit: Callable[[int | None], None]) -> None:
        self._pid = pid
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._pidfd: int | None = None
        self._closed = threading.Event()
        if hasattr(os, "pidfd_open"):
            try:
                self._pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                raise
            except OSError:  # an old kernel, a sandbox that forbids it, or no descriptors left: poll
                self._pidfd = None
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._ended)
        else:
            with contextlib.suppress(PermissionError):
                os.kill(pid, 0)  # a zombie is there
            threading.Thread(target=self._poll, name=f"exit-{pid}", daemon=True).start()

    def close(self) -> None:
        """Stops watching: `on_exit` is not called any more. May be called twice."""
        self._closed.set()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _ended(self) -> None:
        if self._closed.is_set():
            return
        self.close()
        self._on_exit(exit_code(self._pid))

    def _poll(self) -> None:
        while not self._closed.wait(WATCH_INTERVAL):
            if not is_alive(self._pid):
                with contextlib.suppress(RuntimeError):  # the loop was closed: there is nothing to call
                    self._loop.call_soon_threadsafe(self._ended)
                return


def exit_code(pid: int) -> int | None:
    """How a child ended, negative for a signal. None: it is not a child, or still runs."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return None
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def reap(pid: int) -> None:
    """Collects a child that has ended. Does nothing for other processes."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def members(leader: int) -> list[int]:
    """The living processes of the leader's group and session, itself included, without zombies.

    A process that made its own session is not found. Unrelated processes are not found either: a number is not reused
    while a process, a zombie, a group or a session still has it.
    """
    import psutil  # a megabyte, which only a Stoker that has started an engine needs

    return [pid for pid in psutil.pids() if _belongs(pid, leader) and is_alive(pid)]


def unit_members(leader: int, has_group: bool) -> list[int]:
    """The living processes of a serve: its leader, its `members`, what it has started, and of a container or systemd
    unit (`has_group`) all that are in its control group. These may have made sessions of their own.
    """
    import psutil

    found = {leader, *members(leader), *(in_group_of(leader) if has_group else ())}
    with contextlib.suppress(psutil.Error):
        found.update(child.pid for child in psutil.Process(leader).children(recursive=True))
    return [pid for pid in sorted(found) if is_alive(pid)]


def _belongs(pid: int, leader: int) -> bool:
    try:
        return os.getpgid(pid) == leader or os.getsid(pid) == leader
    except (ProcessLookupError, PermissionError):
        return False


def send(leader: int, number: signal.Signals) -> None:
    """Signals the whole group, and processes that left it but not its session. Does nothing for an empty group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # PermissionError: only zombies are left (macOS)
        os.killpg(leader, number)
    import psutil

    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader and os.getpgid(pid) != leader:
                os.kill(pid, number)


def resident_bytes(leader: int) -> int | None:
    """Resident memory of all members together; None: unknown."""
    import psutil

    total = 0
    found = False
    for pid in members(leader):
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(pid).memory_info().rss
            found = True
    return total if found else None


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
            send(self.pid, signal.SIGTERM)
        while not self.exited.is_set() or members(self.pid):
            now, kill_at = loop.time(), self._ending.kill_at
            if now >= kill_at:
                # Again in each round: a process may have forked between the list and the signal.
                send(self.pid, signal.SIGKILL)
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
        left = ", ".join(str(pid) for pid in members(self.pid))
        return StokerError(
            f"process {left} survives SIGKILL: it hangs in the kernel; look at `dmesg` and at its devices, "
            "a restart of the machine may be needed",
            code="unkillable",
        )


def describe_exit(code: int | None) -> str:
    """How a process ended, in words: `exited with code 1`, `was ended by SIGKILL`."""
    if code is None:
        is_told = hasattr(os, "waitid")
        why = "an earlier run of Stoker got its exit code" if is_told else "how, macOS tells from Python 3.13 on"
        return f"exited ({why})"
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
