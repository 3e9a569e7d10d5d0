"""For how long a serve is usually unused between two requests. Pure."""

from __future__ import annotations

WEIGHT = 0.4
"""Of the latest gap in the average: after four gaps of another length, seven eighths of it are forgotten."""


class UsualGap:
    """A moving average, in seconds; `seconds` is None before the first gap."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: float | None = None

    def add(self, gap: float) -> None:
        self.seconds = gap if self.seconds is None else self.seconds + WEIGHT * (gap - self.seconds)
