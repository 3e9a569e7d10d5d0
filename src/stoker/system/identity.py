"""Which operating system this is."""

from __future__ import annotations

import sys
from pathlib import Path

_RELEASE = Path("/proc/sys/kernel/osrelease")


def is_linux() -> bool:
    return sys.platform == "linux"


def is_macos() -> bool:
    return sys.platform == "darwin"


def wsl_version(release: Path = _RELEASE) -> int | None:
    """1 or 2 in Windows Subsystem for Linux, by the name of its kernel (`5.15.153.1-microsoft-standard-WSL2`); else
    None. A kernel that somebody built for WSL may have any name: it counts as none.
    """
    try:
        name = release.read_text("ascii", "replace").lower()
    except OSError:
        return None
    if "microsoft" not in name:
        return None
    return 2 if "wsl2" in name or "microsoft-standard" in name else 1
