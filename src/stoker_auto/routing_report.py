"""What routing did, from recorded decisions: per class and tier, how often it was enough, and what that cost. Pure.

A tier is judged by the requests that it got first: `accepted` of them it answered itself. A request that says nothing
of a tier is left out of that rate: the caller left, or Stoker refused it (a wrong request, no place, a drain).
An answer is worth something only if somebody measured what the tier's answers are worth: a tier without a verdict at
the class has no rate, and only one with an allow saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stoker.domain.decision import Decision, Routed
from stoker.domain.tier import Cost, ProfileRow, Verdict
from stoker_auto.spending import always_cloud, saved
from stoker_lab.statistics.stats import Interval, wilson

Verdicts = Mapping[tuple[str, str], Verdict]
"""What was measured of a tier at a class, decided or not."""
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
    verdict: str = ""
    """What was measured of the tier at this class; empty: nothing."""
    unmeasured: int = 0
    """The requests in `first` of which nothing is known, since nothing was measured."""
    unmeasured_accepted: int = 0
    escalated: int = 0
    """The requests in `requests` for which another tier was tried after it."""
    repairs: int = 0
    findings: dict[str, int] = {}
    cost: float | None = None
    always_cloud: float | None = None
    """What its answers would have cost at the most expensive cloud tier. None without an allow."""
    saved: float | None = None
    """What its answers saved, minus the cost of tiers that were tried before it. None without an allow."""
    escalations: float = 0.0
    """Of `cost`, that of answers after which another tier was asked, or none answered."""
    repaired: float = 0.0
    """Of `cost`, about that of asking again because an answer was wrong: an equal share for each time."""

    @property
    def accept_rate(self) -> float | None:
        """None: nothing was measured, or it was asked nothing first."""
        measured = self.first - self.unmeasured
        return (self.accepted - self.unmeasured_accepted) / measured if measured else None

    @property
    def accept_interval(self) -> Interval:
        """Of the rate, at 95 % (Wilson)."""
        return wilson(self.accepted - self.unmeasured_accepted, self.first - self.unmeasured)

    @property
    def escalation_rate(self) -> float | None:
        return self.escalated / self.requests if self.requests else None


def verdicts_of(measured: Mapping[tuple[str, str], ProfileRow], live: Iterable[ProfileRow]) -> Verdicts:
    """The verdicts of a quality profile; where it has none, those of live grades."""
    graded = {(row.tier, row.task_class): row.verdict for row in live}
    return graded | {key: row.verdict for key, row in measured.items()}


def tier_routes(decisions: Iterable[Decision], clouds: Sequence[Cost], verdicts: Verdicts) -> list[TierRoute]:
    """By class, then in the order in which the tiers were first met. `clouds`: rates of the cloud tiers."""
    found: dict[tuple[str, str], TierRoute] = {}
    for decision in decisions:
        if decision.routed is not None:
            _count(found, decision, decision.routed, clouds, verdicts)
    return sorted(found.values(), key=lambda row: row.task)


def total_route(rows: Iterable[TierRoute]) -> TierRoute:
    """All of them in one; `requests` are then tries, since one request may have several."""
    made = TierRoute("", "")
    for row in rows:
        for name in (
            "requests", "first", "accepted", "unmeasured", "unmeasured_accepted", "escalated", "repairs",
            "escalations", "repaired",
        ):  # fmt: skip
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


def report(
    decisions: Sequence[Decision],
    clouds: Sequence[Cost],
    verdicts: Verdicts,
    live: Sequence[ProfileRow] = (),
    judged_today: float | None = None,
) -> dict[str, Any]:
    """For programs. `clouds`: rates of the cloud tiers; `live`: what was graded; `judged_today`: what that cost today.
    Unknown rates and costs are null.
    """  # fmt: skip
    rows, classes = tier_routes(decisions, clouds, verdicts), silent_failures_by_class(live)
    failures = None
    if classes:
        by_class = {name: _share(one) for name, one in classes.items()}
        failures = {**_share(total_silent_failures(classes.values())), "classes": by_class}
    return {
        "recorded": len(decisions), "routed": count_routed(decisions), "untried": count_untried(decisions),
        "rows": [_row(row) for row in rows], "total": _row(total_route(rows)), "silent_failures": failures,
        "judged_today": judged_today,
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


def _count(
    found: dict[tuple[str, str], TierRoute], decision: Decision, routed: Routed, clouds: Sequence[Cost],
    verdicts: Verdicts,
) -> None:  # fmt: skip
    for place, attempt in enumerate(routed.attempts):
        verdict = verdicts.get((attempt.tier, routed.task))
        made = TierRoute(routed.task, attempt.tier, verdict="" if verdict is None else verdict.value)
        row = found.setdefault((routed.task, attempt.tier), made)
        row.requests += 1
        row.escalated += place + 1 < len(routed.attempts)
        row.repairs += attempt.repairs
        row.cost = _sum(row.cost, attempt.cost)
        for check in attempt.findings:
            row.findings[check] = row.findings.get(check, 0) + 1
        if place == 0 and decision.outcome not in SAYS_NOTHING:
            row.first += 1
            row.accepted += attempt.outcome == "served"
            row.unmeasured += verdict is None
            row.unmeasured_accepted += verdict is None and attempt.outcome == "served"
        if attempt.outcome != "served":
            row.escalations += attempt.cost or 0.0
            continue
        row.repaired += (attempt.cost or 0.0) * attempt.repairs / (attempt.repairs + 1)
        if verdict is Verdict.ALLOW:
            row.always_cloud = _sum(row.always_cloud, always_cloud(decision, clouds))
            row.saved = _sum(row.saved, saved(decision, clouds))


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other
