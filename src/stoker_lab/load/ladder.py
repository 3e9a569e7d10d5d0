"""Which concurrency comes next, where the knee is, whether the machine changed its speed. Pure.

A ladder goes 1, 2, 4, 8, ... clients and stops, in this order of asking:

    (c) more than 1 % of the requests failed
    (b) less than 90 % of them kept the objectives, where objectives are given
    (d) memory is short
    (a) the output rate rose by less than 5 % twice in a row: saturated
    (e) the top is reached

The knee is the last rung that still brought 5 % more than the best before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

RISE = 0.05
MIN_GOOD = 0.9
MAX_FAILED = 0.01
MAX_CHANGE = 0.05
SHARES = (0.5, 0.8, 0.95)
"""Shares of the knee's request rate at which the open-loop steps run."""
TOP = 256


class LadderStop(StrEnum):
    SATURATED = "saturated"
    SLOW = "slow"
    FAILING = "failing"
    FULL = "full"
    TOP = "top"


class Rung(NamedTuple):
    clients: int
    rate: float | None
    """Output tokens per second; None: the server gives no usage, and requests count instead."""
    requests: float | None = None
    """Answered requests per second."""
    failed: float = 0.0
    """The share of started requests that failed."""
    good: float | None = None
    """The share of requests that met the objectives; None: there are no objectives."""
    is_full: bool = False
    """Memory is short."""

    @property
    def output(self) -> float:
        return self.rate if self.rate is not None else self.requests or 0.0


def next_clients(rungs: Sequence[Rung], top: int = TOP) -> int | LadderStop:
    """How many clients come next, or why none do. The cases are numbered in the module's text."""
    if not rungs:
        return 1
    last = rungs[-1]
    if last.failed > MAX_FAILED:  # (c)
        return LadderStop.FAILING
    if last.good is not None and last.good < MIN_GOOD:  # (b)
        return LadderStop.SLOW
    if last.is_full:  # (d)
        return LadderStop.FULL
    if len(rungs) > 2 and not any(_rises(rungs, place) for place in (-2, -1)):  # (a)
        return LadderStop.SATURATED
    if last.clients * 2 > top:  # (e)
        return LadderStop.TOP
    return last.clients * 2


def knee(rungs: Sequence[Rung]) -> Rung | None:
    """The last rung that was worth it; None: there is no rung. A rung that failed or was too slow never counts."""
    sound = [one for one in rungs if one.failed <= MAX_FAILED and (one.good is None or one.good >= MIN_GOOD)]
    found = None
    for one in sound:
        if found is None or one.output >= found.output * (1 + RISE):
            found = one
    return found


def open_rates(rungs: Sequence[Rung]) -> list[float]:
    """Requests per second for the open-loop steps; none where the knee has no rate."""
    at = knee(rungs)
    return [] if at is None or not at.requests else [float(f"{at.requests * share:.3g}") for share in SHARES]


def rerun_change(first: Rung, again: Rung) -> float | None:
    """By how much the first rung changed when it was run again at the end; None: nothing to compare."""
    return again.output / first.output - 1 if first.output else None


def has_changed(first: Rung, again: Rung) -> bool:
    found = rerun_change(first, again)
    return found is not None and abs(found) > MAX_CHANGE


def _rises(rungs: Sequence[Rung], place: int) -> bool:
    """Whether this rung brought 5 % more than the one before."""
    at = len(rungs) + place
    return rungs[at].output >= rungs[at - 1].output * (1 + RISE)
