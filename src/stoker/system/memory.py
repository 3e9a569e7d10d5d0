"""Main memory of this machine, and what of it a GPU inside the processor may use."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stoker.system.identity import is_linux

PROC = Path("/proc")
_SYSCTL_LIMIT = 5.0
"""Seconds that a question to the kernel may take."""


@dataclass(frozen=True, slots=True)
class MainMemory:
    """Bytes; None is unknown."""

    total: int | None
    available: int | None
    """Without swapping, the page cache included."""


def main_memory(proc: Path = PROC) -> MainMemory:
    """Of the whole machine, whatever a control group allows. Microseconds on Linux, else less than a millisecond."""
    if is_linux():
        facts = kernel_table(proc / "meminfo")
        return MainMemory(facts.get("MemTotal"), facts.get("MemAvailable"))
    import psutil  # a megabyte, and Linux has all of this in a file

    try:
        found = psutil.virtual_memory()
    except (psutil.Error, OSError, RuntimeError):
        return MainMemory(None, None)
    return MainMemory(int(found.total), int(found.available))


def kernel_table(path: Path) -> dict[str, int]:
    """Lines of the form `Name:   123 kB`, as bytes; empty if there is no such file."""
    found = {}
    try:
        text = path.read_text("ascii", "replace")
    except OSError:
        return {}
    for line in text.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2] == "kB" and parts[1].isdigit():
            found[parts[0].rstrip(":")] = int(parts[1]) * 1024
    return found


def resident(pid: int) -> int | None:
    """Bytes of a process in memory, by psutil; None: it is gone or another user's."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.Error, OSError):
        return None


def sysctl(name: str) -> str | None:
    """A value of macOS's kernel, from the program of that name; None: it has none, or there is no such program."""
    try:
        done = subprocess.run(
            ("sysctl", "-n", name), stdin=subprocess.DEVNULL, capture_output=True, timeout=_SYSCTL_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() or None if done.returncode == 0 else None


def wired_limit(total: int, ask: Callable[[str], str | None] = sysctl) -> int:
    """How much of `total` bytes of unified memory a Mac's GPU may take.

    1. what somebody set by `sudo sysctl iogpu.wired_limit_mb=N`, which lasts until the next start
    2. else macOS's own share, which Apple documents nowhere. The lowest that people found: two thirds, from 36 GiB on
       three quarters

    The true figure is what Metal reports as `recommendedMaxWorkingSetSize`, and `llama-server --list-devices` prints.
    Seen: 10.67 GiB of 16 (exo#1672), 11.84 of 16 (llmfit#754), 17.76 of 24 (sglang#29949), 107.52 of 128 (ds4#893).
    """
    with contextlib.suppress(ValueError):
        megabytes = int(ask("iogpu.wired_limit_mb") or "")
        if megabytes > 0:
            return min(total, megabytes * 2**20)  # 1
    return total * 3 // 4 if total >= 36 * 2**30 else total * 2 // 3  # 2


def step_aside() -> None:
    """Gives this process the lowest priority, and on Linux makes the kernel kill it first if memory runs out."""
    if is_linux():
        import psutil  # not above: the process that serves imports this module, too

        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with contextlib.suppress(OSError, psutil.Error):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
        with contextlib.suppress(OSError):
            (PROC / "self/oom_score_adj").write_text("1000")
    else:
        with contextlib.suppress(OSError):
            os.nice(19)
