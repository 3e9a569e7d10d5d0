"""Intervals of anything that is computed from paired samples. Pure.

Percentile bootstrap (Efron 1979): samples are drawn again with replacement, each as a whole, so that what two policies
did with one fixture stays together; and each class from itself, for the set has a fixed number of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, TypeVar

T = TypeVar("T")
TIMES = 1000


class Figure(NamedTuple):
    """As it was seen, and the middle 95 % of what it could have been. None: it is not defined."""

    value: float | None
    low: float | None
    high: float | None


def figure(
    groups: Sequence[Sequence[T]], statistic: Callable[[Sequence[T]], float | None], rng: Random, times: int = TIMES
) -> Figure:
    """`groups`: the samples by class; `statistic`: of all samples. Draws for which it is not defined are left out; if
    they are more than one in twenty, there is no interval.
    """
    value = statistic([one for group in groups for one in group])
    draws = (statistic(redrawn(groups, rng)) for _ in range(times))
    seen = sorted(one for one in draws if one is not None)
    if len(seen) < 0.95 * times or not seen:
        return Figure(value, None, None)
    return Figure(value, seen[int(0.025 * len(seen))], seen[min(len(seen) - 1, int(0.975 * len(seen)))])


def redrawn(groups: Sequence[Sequence[T]], rng: Random) -> list[T]:
    return [one for group in groups for one in rng.choices(group, k=len(group))]
