"""Real time."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `domain.protocols.Clock`."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
