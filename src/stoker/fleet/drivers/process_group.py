"""A process group, and the session around it: all processes of one start. `ExitWatch` notices the end of any process at
once: a child, or one that an earlier run of Stoker started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable

POLL_INTERVAL = 0.05


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
        while not self._closed.wait(POLL_INTERVAL):
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


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    import psutil

    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def members(leader: int) -> list[int]:
    """The living processes of the leader's group and session, itself included, without zombies.

    A process that made its own session is not found. Unrelated processes are not found either: a number is not reused
    while a process, a zombie, a group or a session still has it.
    """
    import psutil  # a megabyte, which only a Stoker that has started an engine needs

    return [pid for pid in psutil.pids() if _belongs(pid, leader) and is_alive(pid)]


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
