"""Lowers this process's priority for the CPU, and for the disk if its scheduler has priorities."""

from __future__ import annotations

import contextlib
import os


def lower_priority() -> None:
    """For this process and all that it starts, for good. What the system does not allow is left as it is."""
    import psutil

    with contextlib.suppress(OSError):
        os.nice(19 - os.nice(0))
    with contextlib.suppress(OSError, AttributeError, psutil.Error):
        psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
