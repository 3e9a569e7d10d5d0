"""Facts about processes: Linux has them in files, psutil elsewhere. None: it is gone, or they are not ours to read."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

from stoker.system.identity import is_linux

_PR_SET_PDEATHSIG = 1
PARENT_INTERVAL = 0.5
"""Seconds between two looks whether the parent lives, where the kernel does not tell."""


def start_mark(pid: int) -> str | None:
    """What no other process with this number ever has: boot and start time. None: there is no such process."""
    if not is_linux():
        import psutil  # a megabyte, and Linux has all of this in files

        try:
            return f"created:{psutil.Process(pid).create_time():.2f}"
        except psutil.Error:
            return None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    # Field 22, counted after the command's name, which may hold spaces and brackets itself.
    return f"{boot}:{stat.rpartition(')')[2].split()[19]}"


def command_line(pid: int) -> str | None:
    """Its arguments, joined by NUL; None if it is gone or cannot be read."""
    if not is_linux():
        import psutil

        try:
            words = "\0".join(psutil.Process(pid).cmdline())
        except (psutil.Error, OSError):
            return None
        return words or None
    try:
        line = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return None
    words = line.removesuffix("\0")
    if "\0" not in words:  # one argument, or a title that the process gave itself, with spaces
        words = words.removesuffix(" ").replace(" ", "\0")
    return words or None  # a zombie has none


def environment(pid: int) -> dict[str, str] | None:
    """The variables that it was started with; None if it is gone or cannot be read."""
    import psutil

    try:
        return dict(psutil.Process(pid).environ())
    except (psutil.Error, OSError):
        return None


def has_variable(pid: int, name: str, value: str) -> bool:
    """Whether it was started with this variable. Cheaper than `environment`: called for every process."""
    if not is_linux():
        return (environment(pid) or {}).get(name) == value
    try:
        found = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{name}={value}".encode() in found.split(b"\0")


def is_alive(pid: int) -> bool:
    """Whether it exists and is not a zombie."""
    import psutil

    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


_TREES = ("name=systemd", "memory")
"""Those of control groups version 1 in which each container has a group. Version 2 has one tree, without a name; beside
version 1 it may hold all containers in one group.
"""


def control_group(pid: int | str, proc: Path = Path("/proc")) -> str | None:
    """The path of its control group; None: it is in none of its own, or is gone."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    paths = {parts[1]: parts[2] for line in lines if len(parts := line.split(":", 2)) == 3}
    trees = _TREES if paths.keys() - {""} else ("",)
    return next((paths[tree] for tree in trees if paths.get(tree, "/") != "/"), None)


def in_group_of(leader: int, proc: Path = Path("/proc")) -> list[int]:
    """The processes in the control group of `leader`, or below it, zombies included: those of its container or systemd
    unit, whichever session they are in. Empty where it has no group of its own, as if it is in that of Stoker.
    """
    group, ours = control_group(leader, proc), control_group("self", proc)
    if group is None or (ours is not None and f"{ours}/".startswith(f"{group}/")):
        return []
    numbers = [int(name) for name in os.listdir(proc) if name.isdigit()]
    return [pid for pid in numbers if f"{control_group(pid, proc)}/".startswith(f"{group}/")]


def signal_at_parents_end(number: signal.Signals) -> None:
    """In a child between fork and exec: have the kernel send it `number` when its parent ends. Linux only: elsewhere it
    does nothing.
    """
    if is_linux():
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def end_with_parent(parent: int) -> bool:
    """Have this process killed when its parent ends. False: it has ended already. Where the kernel does not do it, a
    thread looks.
    """
    signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:
        return False
    if not is_linux():
        threading.Thread(target=_watch, args=(parent,), name="parent", daemon=True).start()
    return True


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_INTERVAL)
    os.kill(os.getpid(), signal.SIGKILL)
