"""Is this the process that was started, or a later one with the same number?"""

from __future__ import annotations

import os
import sys
from pathlib import Path

MARK_VARIABLE = "STOKER_START"
"""In every child's environment: the nonce of its start. Grandchildren inherit it."""


STOP_VARIABLE = "STOKER_STOP"
"""In the environment of a serve's stop command: the nonce of the start that it ends."""


def start_mark(pid: int) -> str | None:
    """What no other process with this number ever has: boot and start time. None: there is no such process."""
    if sys.platform != "linux":
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
    if sys.platform != "linux":
        import psutil

        try:
            return "\0".join(psutil.Process(pid).cmdline())
        except psutil.Error:
            return None
    try:
        line = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return None
    words = line.removesuffix("\0")
    if "\0" not in words:  # one argument, or a title that the process gave itself, with spaces
        words = words.removesuffix(" ").replace(" ", "\0")
    return words or None  # a zombie has none


def has_start_nonce(pid: int, nonce: str, variable: str = MARK_VARIABLE) -> bool:
    """Whether the process descends from the start with this nonce; or, by STOP_VARIABLE, from its stop command."""
    if sys.platform != "linux":
        import psutil

        try:
            return bool(psutil.Process(pid).environ().get(variable) == nonce)
        except psutil.Error:
            return False
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{variable}={nonce}".encode() in environment.split(b"\0")
