"""A process group, and the session around it: all processes of one start."""

from __future__ import annotations

import contextlib
import os
import signal

from stoker.fleet.drivers.exit_watch import is_alive


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
