"""The windows of time in which limits count: a minute, a day, a month. Pure.

They are computed from the time, so nothing has to reset them. All are UTC; a minute begins with the full minute.

They count by a time that a step of the system's clock does not change: that neither frees budgets nor uses them up.
"""

from __future__ import annotations

from collections.abc import Callable
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


STEP = 2.0
"""Seconds. A smaller difference between both clocks is the usual correction of a clock that runs too fast or too
slow, and is followed; a larger one is a step."""


class SteadyTime:
    """Unix time that advances with a clock that is never set.

    After a step forward, windows that have begun go on; the new time counts from the next UTC midnight of the old time
    on. A step back is ignored until Stoker starts again: else a day that is over would come again, with its budget used
    up.
    """

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float]) -> None:
        """`wall`: Unix seconds. `elapsed`: seconds from any start, also while the machine sleeps."""
        self._wall = wall
        self._elapsed = elapsed
        self._base = wall() - elapsed()
        self._adopt_at: float | None = None
        """When the time after a step is adopted; None: there was no step."""

    def now(self) -> float:
        at = self._base + self._elapsed()
        difference = self._wall() - at
        if -STEP < difference < STEP:
            self._adopt_at = None
        elif self._adopt_at is None:
            self._adopt_at = LimitWindow.DAY.bounds(at)[1]
            return at
        elif at < self._adopt_at or difference < 0:
            return at
        self._base += difference
        return at + difference
