"""Where a measurement ran: nothing in here names a person, a host or a folder."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

from stoker import __version__


def machine(gpus: Sequence[str] | None = None) -> dict[str, object]:
    """Ready for JSON; what is not known is None. `gpus`: one description each; None: not looked up."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": None if gpus is None else list(gpus),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "stoker": __version__,
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
