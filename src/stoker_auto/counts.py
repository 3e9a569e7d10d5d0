"""Counters of requests that named a task: what their tiers did, and what that cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stoker.domain.decision import Attempt, Decision, Routed
from stoker.domain.task import ClassSource
from stoker.domain.tier import Cost, Verdict
from stoker.store import labels
from stoker_auto.spending import saved
from stoker_content.verify.finding import CHECKS

SOURCES = frozenset(ClassSource)


def certainty(notes: Iterable[str]) -> str:
    """The lower bound of the certainty of a class (`0.8`, `0.5` or `0`) by the note `sure:87%`; `none` without one."""
    percent = next((note[5:-1] for note in notes if note.startswith("sure:")), "")
    if not percent.isdecimal():
        return labels.NONE
    return "0.8" if int(percent) >= 80 else "0.5" if int(percent) >= 50 else "0"


class RoutedCounts:
    """Fed on the event loop; label values are bounded, as those of `stoker.store.metrics`."""

    def __init__(self) -> None:
        self._clouds: tuple[Cost, ...] = ()
        self._tasks = labels.names()
        self._tiers = labels.names()
        self._codes = labels.codes()
        self.requests: Counter[tuple[str, str, str]] = Counter()
        """By class, the tier that answered, and the request's outcome."""
        self.classified: Counter[tuple[str, str]] = Counter()
        """By the source of the class, and its certainty: `certainty`."""
        self.attempts: Counter[tuple[str, str]] = Counter()
        self.repairs: Counter[str] = Counter()
        self.findings: Counter[tuple[str, str]] = Counter()
        self.cost: dict[str, float] = {}
        self.saved = self.overspent = 0.0
        self.graded: Counter[tuple[str, str, str]] = Counter()
        """Grades by class, tier, and `pass` or `fail`."""
        self.ungraded: Counter[str] = Counter()
        """Sampled for grading, and dropped: by reason, a word of Stoker's."""
        self.classifier: Counter[str] = Counter()
        """Requests whose class a model had to decide, by result: words of Stoker's."""
        self.demoted: Counter[tuple[str, str]] = Counter()
        """Demotions by class and tier."""
        self.judging = 0.0
        """What grading cost."""

    @property
    def clouds(self) -> tuple[Cost, ...]:
        """Rates of the cloud tiers. With none, nothing is saved against them."""
        return self._clouds

    def set_clouds(self, rates: tuple[Cost, ...]) -> None:
        """Count savings against these rates from now on."""
        self._clouds = rates

    def observe(self, decision: Decision, routed: Routed) -> None:
        outcome = decision.outcome if decision.outcome in labels.OUTCOMES else labels.OTHER
        tier = self._tiers.label(routed.tier) if routed.tier else labels.NONE
        self.requests[self._tasks.label(routed.task), tier, outcome] += 1
        source = routed.source if routed.source in SOURCES else labels.OTHER
        self.classified[source, certainty(routed.notes)] += 1
        for attempt in routed.attempts:
            self._attempt(attempt)
        # Two counters: one of differences would go down, and a counter that goes down reads as a restart.
        # What nobody measured saves nothing.
        less = saved(decision, self._clouds) if routed.verdict == Verdict.ALLOW.value else None
        if less is not None and less >= 0:
            self.saved += less
        elif less is not None:
            self.overspent -= less

    def observe_judging(self, cost: float) -> None:
        """A judge was asked, for this much."""
        self.judging += cost

    def observe_grade(self, task: str, tier: str, word: str) -> None:
        self.graded[self._tasks.label(task), self._tiers.label(tier), word] += 1

    def observe_demotion(self, tier: str, task: str) -> None:
        self.demoted[self._tasks.label(task), self._tiers.label(tier)] += 1

    def _attempt(self, attempt: Attempt) -> None:
        tier = self._tiers.label(attempt.tier)
        self.attempts[tier, self._codes.label(attempt.outcome or "left")] += 1
        self.repairs[tier] += attempt.repairs
        for check in attempt.findings:
            self.findings[tier, check if check in CHECKS else labels.OTHER] += 1
        if attempt.cost is not None:
            self.cost[tier] = self.cost.get(tier, 0.0) + attempt.cost
