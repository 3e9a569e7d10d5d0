"""The windows of time in which limits count: a minute, a day, a month. Pure.

They are computed from the time, so nothing has to reset them. All are UTC; a minute begins with the full minute.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum

MINUTE, DAY = 60.0, 86_400.0


class LimitWindow(Enum):
    """`value`: how messages call it."""

    MINUTE = "minute"
    DAY = "day"
    MONTH = "month"

    def bounds(self, at: float) -> tuple[float, float]:
        """Start and end (Unix seconds) of the window that `at` is in."""
        if self is LimitWindow.MONTH:
            day = datetime.fromtimestamp(at, UTC)
            start = datetime(day.year, day.month, 1, tzinfo=UTC)
            end = datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
            return start.timestamp(), end.timestamp()
        length = MINUTE if self is LimitWindow.MINUTE else DAY
        start_at = at - at % length
        return start_at, start_at + length
