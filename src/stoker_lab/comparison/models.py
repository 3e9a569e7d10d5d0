"""Two models side by side: by class of tasks with intervals, speed, memory and cost, and a summary in words. Pure.

A class is compared pair by pair where both were asked the same fixtures, else as two samples. A difference counts
where its 95 % interval leaves out zero. Each class has its own interval: of twelve that are equal, one in two
comparisons has a class that seems to differ by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.run import Number
from stoker.domain.task import CLASSES
from stoker.domain.tier import Cost
from stoker_lab.statistics.stats import Z95, Interval, wilson
from stoker_lab.suites.grading import GradedFixture, GradeOutcome

FEW_PAIRS = 10
"""Below it, what both were asked is too little to go by."""
ALIKE = 0.05
"""Speeds that are nearer than this are about the same."""
SPEED = ("ttft_p50", "ttft_p95", "decode_rate", "output_rate")
UNITS = {"ttft_p50": "ms", "ttft_p95": "ms", "decode_rate": "tokens/s", "output_rate": "tokens/s"}


class ClassRating(StrEnum):
    """How the second model compares with the first."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "not distinguishable"


class ComparedModel(NamedTuple):
    name: str
    serve: str
    graded: Sequence[GradedFixture] = ()
    speed: Mapping[str, Number] = {}
    """Figures named in SPEED, with one client (`output_rate`: with `clients`)."""
    clients: int | None = None
    """The number of clients behind `output_rate`."""
    memory: int | None = None
    """Bytes."""
    cost: Cost | None = None
    """None: no tier has a `cost` for it."""
    runs: tuple[str, ...] = ()
    """Ids of the results that these figures come from."""


class PassRate(NamedTuple):
    passed: int
    n: int

    @property
    def interval(self) -> Interval:
        return wilson(self.passed, self.n)


class ClassComparison(NamedTuple):
    name: str
    a: PassRate
    b: PassRate
    difference: float
    """The second pass rate minus the first."""
    interval: Interval
    """The 95 % interval of the difference."""
    pairs: int
    """How many fixtures both models were asked, if the difference is taken in pairs; 0: two separate samples."""

    @property
    def rating(self) -> ClassRating:
        if self.interval.low > 0:
            return ClassRating.BETTER
        return ClassRating.WORSE if self.interval.high < 0 else ClassRating.SAME


class ModelComparison(NamedTuple):
    a: ComparedModel
    b: ComparedModel
    classes: list[ClassComparison]
    unmatched_classes: list[str]
    """Classes that only one of the two was measured at."""
    summary: str


def compare_models(a: ComparedModel, b: ComparedModel) -> ModelComparison:
    """Every class that both have samples of."""
    first, second = _by_class(a.graded), _by_class(b.graded)
    names = [name for name in (*CLASSES, *sorted(first.keys() - set(CLASSES))) if name in first and name in second]
    classes = [_class(name, first[name], second[name]) for name in names]
    alone = [name for name in dict.fromkeys((*first, *second)) if name not in names]
    return ModelComparison(a, b, classes, alone, _summary(a, b, classes))


def paired(only_first: int, only_second: int, n: int) -> Interval:
    """Of the difference of two rates over the same n questions; `only_*`: questions that only this one passed.

    Bonett and Price, Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data,
    Journal of Educational and Behavioral Statistics 37 (2012) 479-488.
    """
    one, other = (only_first + 1) / (n + 2), (only_second + 1) / (n + 2)
    half = Z95 * math.sqrt((one + other - (one - other) ** 2) / (n + 2))
    return Interval(max(-1.0, other - one - half), min(1.0, other - one + half))


def unpaired(a: PassRate, b: PassRate) -> Interval:
    """Of the difference of the rates of two samples.

    Newcombe, Interval Estimation for the Difference between Independent Proportions, Statistics in Medicine 17 (1998)
    873-890, method 10.
    """
    p, q, first, second = a.passed / a.n, b.passed / b.n, a.interval, b.interval
    low = q - p - math.hypot(q - second.low, first.high - p)
    high = q - p + math.hypot(second.high - q, p - first.low)
    return Interval(max(-1.0, low), min(1.0, high))


def _summary(a: ComparedModel, b: ComparedModel, classes: Sequence[ClassComparison]) -> str:
    """One sentence about the second model."""
    parts = []
    for word in (ClassRating.BETTER, ClassRating.WORSE):
        found = [one for one in classes if one.rating is word]
        if found:
            parts.append(f"{word.value} at " + ", ".join(f"{one.name} ({points(one)})" for one in found))
    same = sum(one.rating is ClassRating.SAME for one in classes)
    if same:
        parts.append(f"not distinguishable {'elsewhere' if parts else 'in quality'} ({same} of {len(classes)})")
    if not classes:
        parts.append("not compared by class: no class was measured for both")
    speed = _speed_words(a, b)
    return f"{b.name} is {', '.join(parts)}" + (f", and {speed}" if speed else "; their speeds were not measured")


def points(one: ClassComparison) -> str:
    """`+12 points, 95 % interval +4 to +20`."""
    low, high = (100 * bound for bound in one.interval)
    return f"{100 * one.difference:+.0f} points, 95 % interval {low:+.0f} to {high:+.0f}"


def _speed_words(a: ComparedModel, b: ComparedModel) -> str:
    before, after = a.speed.get("decode_rate"), b.speed.get("decode_rate")
    factor = after / before if before and after else None
    if factor is None:
        before, after = a.speed.get("ttft_p50"), b.speed.get("ttft_p50")
        factor = before / after if before and after else None
    if factor is None:
        return ""
    if abs(factor - 1) <= ALIKE:
        return "about as fast"
    word, ratio = ("faster", factor) if factor > 1 else ("slower", 1 / factor)
    return f"{100 * (ratio - 1):.0f} % {word}" if ratio < 1.2 else f"{ratio:.1f} times {word}"


def _by_class(graded: Sequence[GradedFixture]) -> dict[str, dict[tuple[str, str], bool]]:
    found: dict[str, dict[tuple[str, str], bool]] = {}
    for one in graded:
        if one.is_sample:
            found.setdefault(one.task_class, {})[one.fixture, one.digest] = one.outcome is GradeOutcome.PASSED
    return found


def _class(name: str, first: Mapping[tuple[str, str], bool], second: Mapping[tuple[str, str], bool]) -> ClassComparison:
    both = first.keys() & second.keys()
    if len(both) >= FEW_PAIRS:
        a = PassRate(sum(first[key] for key in both), len(both))
        b = PassRate(sum(second[key] for key in both), len(both))
        only_a, only_b = (sum(x[key] and not y[key] for key in both) for x, y in ((first, second), (second, first)))
        return ClassComparison(
            name, a, b, (b.passed - a.passed) / len(both), paired(only_a, only_b, len(both)), len(both)
        )
    a, b = (PassRate(sum(own.values()), len(own)) for own in (first, second))
    return ClassComparison(name, a, b, b.passed / b.n - a.passed / a.n, unpaired(a, b), 0)
