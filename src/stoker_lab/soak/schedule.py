"""When cycles start: anchored to the beginning, whatever a cycle takes and whatever the clocks do. Pure.

`elapsed` is seconds since the beginning by a clock that goes on while the machine sleeps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

LATE = 0.1
"""A cycle that could start only so late, as a share of the period, is missed: the next one is waited for."""
JUMP = 2.0
"""Seconds by which the wall clock and the other one may move apart between two looks."""
OVERSLEPT = 5.0
"""Seconds by which a sleep may be longer than asked; more: the machine was suspended, or had no time for us."""


class NextCycle(NamedTuple):
    """Wait `wait` seconds, then start that cycle (None: the soak is over). `missed`: cycles that never start."""

    wait: float
    cycle: int | None
    missed: tuple[int, ...]


class CycleSchedule(NamedTuple):
    """Cycles 0, 1, 2... start every `every` seconds before `length` has passed."""

    every: float
    length: float

    @property
    def cycles(self) -> int:
        return max(1, math.ceil(self.length / self.every - 1e-9))

    def start(self, cycle: int) -> float:
        return cycle * self.every

    def next(self, elapsed: float, done: int) -> NextCycle:
        """`done`: how many cycles were started or missed so far."""
        first = max(done, math.ceil((elapsed - LATE * self.every) / self.every))
        missed = tuple(range(done, min(first, self.cycles)))
        if first >= self.cycles:
            return NextCycle(max(0.0, self.length - elapsed), None, missed)
        return NextCycle(max(0.0, self.start(first) - elapsed), first, missed)


class ClockWatch:
    """Watches the wall clock against the other one, and sleeps against what was asked."""

    def __init__(self, now: float, wall: float) -> None:
        self._offset = wall - now

    def jumped(self, now: float, wall: float) -> float | None:
        """By how many seconds the wall clock was set since the last call; None: it was not."""
        jump = wall - now - self._offset
        self._offset = wall - now
        return jump if abs(jump) > JUMP else None


def overslept(asked: float, slept: float) -> float | None:
    """Seconds that the machine was away; None: it was not."""
    return slept - asked if slept - asked > OVERSLEPT else None
