"""Facts about where a measurement ran: nothing in here names a person, a host or a folder."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from stoker import __version__
from stoker.cli import discover


def facts() -> dict[str, object]:
    """Ready for JSON; anything unknown is None."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": [f"{gpu.name}" + (f", {gpu.memory / 2**30:.0f} GiB" if gpu.memory else "") for gpu in discover.gpus()],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "stoker": __version__,
    }


def is_short_of_memory() -> bool:
    """Less than 3 % of main memory is left: more clients would make it swap."""
    now = psutil.virtual_memory()
    return bool(now.available < now.total * 0.03)


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
