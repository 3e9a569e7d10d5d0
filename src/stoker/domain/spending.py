"""What a routed request cost, compared with the price of the most expensive cloud tier. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from stoker.domain.decision import Decision, Routed
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import Cost


class DailySpending(msgspec.Struct, frozen=True):
    """Money of one UTC day, as `2026-11-21`."""

    day: str = ""
    amount: float = 0.0

    def amount_on(self, at: float) -> float:
        """What was spent on the day of `at` (Unix time); another day begins with nothing."""
        return self.amount if day_of(at) == self.day else 0.0

    def add(self, amount: float, at: float) -> DailySpending:
        return DailySpending(day_of(at), self.amount_on(at) + amount)


def day_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def cloud_costs(router: RouterSettings | None) -> tuple[Cost, ...]:
    """The rates of the cloud tiers, whether a request may go there or not."""
    return () if router is None else tuple(tier.cost for tier in router.tiers if tier.cloud)


def spent(routed: Routed) -> float:
    """What is known to have been paid, answers that were thrown away included."""
    return sum(attempt.cost or 0.0 for attempt in routed.attempts)


def always_cloud(decision: Decision, clouds: Iterable[Cost]) -> float | None:
    """The tokens of the answer that the client got, at the rates of the cloud tier that is most expensive for them.

    They are the last call's: what a repair threw away is not among them. None: no cloud is configured, no tier
    answered, or its tokens are not known.
    """
    routed, asked, answered = decision.routed, decision.input_tokens, decision.output_tokens
    if routed is None or not routed.tier or asked is None or answered is None:
        return None
    return max((cost.of(asked, answered) for cost in clouds), default=None)


def saved(decision: Decision, clouds: Iterable[Cost]) -> float | None:
    """Negative: it cost more than the cloud would have. None: `always_cloud` is not known."""
    instead = always_cloud(decision, clouds)
    return None if instead is None or decision.routed is None else instead - spent(decision.routed)
