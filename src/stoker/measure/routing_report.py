"""What routing did, from recorded decisions: per class and tier, how often it was enough, and what that cost. Pure.

A tier is judged by the requests that it got first: `accepted` of them it answered itself. A request that says nothing
of a tier is left out of that rate: the caller left, or Stoker refused it (a wrong request, no place, a drain).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stoker.domain.decision import Decision, Routed
from stoker.domain.spending import always_cloud, saved
from stoker.domain.tier import Cost, ProfileRow
from stoker.measure.statistics.stats import Interval, wilson

SAYS_NOTHING = ("client_left", "refused", "cut", "bug", "open")
"""Outcomes of requests that no tier is to be judged by."""


class TierRoute(msgspec.Struct):
    """One tier at one class. Money is None where nothing is known of it."""

    task: str
    tier: str
    requests: int = 0
    """Requests for which the tier was tried."""
    first: int = 0
    """Requests for which the tier was tried first and whose outcome says something about it."""
    accepted: int = 0
    """The requests in `first` that the tier answered."""
    escalated: int = 0
    """The requests in `requests` for which another tier was tried after it."""
    repairs: int = 0
    findings: dict[str, int] = {}
    cost: float | None = None
    always_cloud: float | None = None
    """What its answers would have cost at the most expensive cloud tier."""
    saved: float | None = None
    """What its answers saved, minus the cost of tiers that were tried before it."""

    @property
    def accept_rate(self) -> float | None:
        return self.accepted / self.first if self.first else None

    @property
    def accept_interval(self) -> Interval:
        """Of the rate, at 95 % (Wilson)."""
        return wilson(self.accepted, self.first)

    @property
    def escalation_rate(self) -> float | None:
        return self.escalated / self.requests if self.requests else None


def tier_routes(decisions: Iterable[Decision], clouds: Sequence[Cost]) -> list[TierRoute]:
    """By class, then in the order in which the tiers were first met. `clouds`: rates of the cloud tiers."""
    found: dict[tuple[str, str], TierRoute] = {}
    for decision in decisions:
        if decision.routed is not None:
            _count(found, decision, decision.routed, clouds)
    return sorted(found.values(), key=lambda row: row.task)


def total_route(rows: Iterable[TierRoute]) -> TierRoute:
    """All of them in one; `requests` are then tries, since one request may have several."""
    made = TierRoute("", "")
    for row in rows:
        for name in ("requests", "first", "accepted", "escalated", "repairs"):
            setattr(made, name, getattr(made, name) + getattr(row, name))
        for name in ("cost", "always_cloud", "saved"):
            setattr(made, name, _sum(getattr(made, name), getattr(row, name)))
        for check, count in row.findings.items():
            made.findings[check] = made.findings.get(check, 0) + count
    return made


def silent_failure_interval(accepted_wrong: int, accepted_graded: int) -> Interval:
    """The share of accepted answers that are wrong, at 95 % (Wilson), from a sample of them that was graded.

    The sample has to be drawn by chance from what was accepted. None graded: anywhere from 0 to 1.
    """
    if not 0 <= accepted_wrong <= accepted_graded:
        raise ValueError("needs 0 <= accepted_wrong <= accepted_graded")
    return wilson(accepted_wrong, accepted_graded)


class SilentFailures(msgspec.Struct, frozen=True):
    """Of accepted answers that were graded, how many were wrong."""

    wrong: int = 0
    graded: int = 0

    @property
    def rate(self) -> float | None:
        return self.wrong / self.graded if self.graded else None

    @property
    def interval(self) -> Interval:
        return silent_failure_interval(self.wrong, self.graded)


def silent_failures_by_class(live: Iterable[ProfileRow]) -> dict[str, SilentFailures]:
    """By class, over all tiers, from the rows of live grades; where nothing was graded, nothing."""
    found: dict[str, SilentFailures] = {}
    for row in live:
        if row.n:
            before = found.get(row.task_class, SilentFailures())
            found[row.task_class] = SilentFailures(before.wrong + row.n - row.passed, before.graded + row.n)
    return dict(sorted(found.items()))


def total_silent_failures(classes: Iterable[SilentFailures]) -> SilentFailures:
    listed = list(classes)
    return SilentFailures(sum(one.wrong for one in listed), sum(one.graded for one in listed))


def report(decisions: Sequence[Decision], clouds: Sequence[Cost], live: Sequence[ProfileRow] = ()) -> dict[str, Any]:
    """For programs. `clouds`: rates of the cloud tiers; `live`: what was graded. Unknown rates and costs are null."""
    rows, classes = tier_routes(decisions, clouds), silent_failures_by_class(live)
    failures = None
    if classes:
        by_class = {name: _share(one) for name, one in classes.items()}
        failures = {**_share(total_silent_failures(classes.values())), "classes": by_class}
    return {
        "recorded": len(decisions), "routed": count_routed(decisions), "untried": count_untried(decisions),
        "rows": [_row(row) for row in rows], "total": _row(total_route(rows)), "silent_failures": failures,
    }  # fmt: skip


def count_routed(decisions: Sequence[Decision]) -> int:
    return sum(decision.routed is not None for decision in decisions)


def count_untried(decisions: Sequence[Decision]) -> int:
    return sum(decision.routed is not None and not decision.routed.attempts for decision in decisions)


def _row(row: TierRoute) -> dict[str, Any]:
    bounds = row.accept_interval if row.first else None
    made: dict[str, Any] = msgspec.to_builtins(row)
    return made | {
        "accept_rate": row.accept_rate, "accept_interval": None if bounds is None else [bounds.low, bounds.high],
        "escalation_rate": row.escalation_rate,
    }  # fmt: skip


def _share(one: SilentFailures) -> dict[str, Any]:
    return {"wrong": one.wrong, "graded": one.graded, "rate": one.rate, "interval": list(one.interval)}


def _count(found: dict[tuple[str, str], TierRoute], decision: Decision, routed: Routed, clouds: Sequence[Cost]) -> None:
    for place, attempt in enumerate(routed.attempts):
        row = found.setdefault((routed.task, attempt.tier), TierRoute(routed.task, attempt.tier))
        row.requests += 1
        row.escalated += place + 1 < len(routed.attempts)
        row.repairs += attempt.repairs
        row.cost = _sum(row.cost, attempt.cost)
        for check in attempt.findings:
            row.findings[check] = row.findings.get(check, 0) + 1
        if place == 0 and decision.outcome not in SAYS_NOTHING:
            row.first += 1
            row.accepted += attempt.outcome == "served"
        if attempt.outcome == "served":
            row.always_cloud = _sum(row.always_cloud, always_cloud(decision, clouds))
            row.saved = _sum(row.saved, saved(decision, clouds))


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other
