"""Whole suites: every fixture of a class is asked, so that an interval of a fixed number of samples means what it says.

`eval bootstrap` stops as soon as its sequential test decides; an interval over those answers is too
optimistic. A gate and a comparison need the interval, so they ask every fixture. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stoker.domain.figures import counted
from stoker.domain.run import Finding, Number, Outcome, Run
from stoker_lab.statistics.stats import Sprt, wilson
from stoker_lab.suites.fixture import Fixture, by_class
from stoker_lab.suites.grading import GradedFixture


class NeverOver(Sprt):
    """A test that is never over."""

    __slots__ = ()

    @property
    def is_over(self) -> bool:
        return False


class _Raw(msgspec.Struct):
    graded: list[GradedFixture] = []


def graded_in(runs: Iterable[Run]) -> list[GradedFixture]:
    """Every sample in the raw part of these runs; of one fixture in one wording the first that is met."""
    found: dict[tuple[str, str], GradedFixture] = {}
    for run in runs:
        try:
            listed = msgspec.json.decode(run.raw, type=_Raw).graded
        except msgspec.DecodeError:
            continue  # another version wrote it
        for one in listed:
            if one.is_sample:
                found.setdefault((one.fixture, one.digest), one)
    return list(found.values())


def complete_classes(graded: Sequence[GradedFixture], fixtures: Iterable[Fixture]) -> list[str]:
    """The classes of which every fixture was asked, and at least one gave a sample."""
    asked = {(one.fixture, one.digest) for one in graded}
    sampled = {one.task_class for one in graded if one.is_sample}
    return [
        name
        for name, own in by_class(fixtures).items()
        if name in sampled and all((one.id, one.digest) in asked for one in own)
    ]


def numbers(graded: Iterable[GradedFixture]) -> dict[str, Number]:
    """`CLASS.n` and `CLASS.passed`, over samples."""
    found: dict[str, Number] = {}
    for one in graded:
        if one.is_sample:
            found[f"{one.task_class}.n"] = int(found.get(f"{one.task_class}.n") or 0) + 1
            passed = int(found.get(f"{one.task_class}.passed") or 0)
            found[f"{one.task_class}.passed"] = passed + (one.outcome.value == "passed")
    return found


def findings(graded: Sequence[GradedFixture]) -> list[Finding]:
    """One per class: its rate with the interval, and what gave no sample."""
    sums, found = numbers(graded), []
    for name in dict.fromkeys(one.task_class for one in graded):
        n, passed = int(sums.get(f"{name}.n") or 0), int(sums.get(f"{name}.passed") or 0)
        interval = wilson(passed, n)
        missed = [one for one in graded if one.task_class == name and not one.is_sample]
        seen = f"{passed} of {n}, 95 % interval {interval.low:.3f} to {interval.high:.3f}" if n else "no sample"
        questions = counted(len(missed), "question")
        seen += f"; {questions} could not be graded, the first: {missed[0].reason}" if missed else ""
        outcome = Outcome.PASSED if n else Outcome.UNDECIDED
        found.append(Finding(name, outcome, seen, numbers={"n": n, "passed": passed}))
    return found
