"""Time that moves when a test says so."""

from __future__ import annotations


class FakeClock:
    """Implements `domain.protocols.Clock`. Monotonic and wall time move together, and only in `advance`."""

    def __init__(self, now: float = 0.0, wall: float = 1_800_000_000.0) -> None:
        self._now = now
        self._wall = wall

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._wall

    def advance(self, seconds: float) -> None:
        """Raises ValueError if `seconds` is negative: monotonic time does not go back."""
        if seconds < 0:
            raise ValueError(f"FakeClock.advance({seconds}): time does not go back; give seconds >= 0")
        self._now += seconds
        self._wall += seconds
