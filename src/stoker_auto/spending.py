"""What a routed request cost, compared with the most expensive cloud tier. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from stoker.domain.decision import Decision
from stoker.domain.routing import RouterSettings
from stoker.domain.tier import Cost


class DailySpending(msgspec.Struct, frozen=True):
    """The money spent on one UTC day. `day`: as `2026-11-21`."""

    day: str = ""
    amount: float = 0.0

    def amount_on(self, at: float) -> float:
        """The money spent on the day of `at` (Unix time); 0 on a day that has no record."""
        return self.amount if day_of(at) == self.day else 0.0

    def add(self, amount: float, at: float) -> DailySpending:
        return DailySpending(day_of(at), self.amount_on(at) + amount)


def day_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def cloud_costs(router: RouterSettings | None) -> tuple[Cost, ...]:
    """The prices of all cloud tiers, also of those that a request may not use."""
    return () if router is None else tuple(tier.cost for tier in router.tiers if tier.cloud)


def always_cloud(decision: Decision, clouds: Iterable[Cost]) -> float | None:
    """What the answer that the client got would have cost at the cloud tier that is most expensive for its tokens.

    Only the last call counts, not answers that a repair discarded; what came from a cache counts as cached there, too.
    None: no cloud tier is configured, no tier answered,
    or the tokens are not known.
    """
    routed, asked, answered = decision.routed, decision.input_tokens, decision.output_tokens
    if routed is None or not routed.tier or asked is None or answered is None:
        return None
    cached, written = decision.cached_tokens or 0, decision.cache_write_tokens or 0
    return max((cost.of(asked, answered, cached, written) for cost in clouds), default=None)


def saved(decision: Decision, clouds: Iterable[Cost]) -> float | None:
    """The difference between `always_cloud` and the cost; negative: the cloud would have been cheaper. None:
    unknown.
    """
    instead = always_cloud(decision, clouds)
    return None if instead is None or decision.routed is None else instead - decision.routed.cost
