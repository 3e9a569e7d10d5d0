"""Whether tiers answer: a circuit breaker for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.domain.errors import StokerError
from stoker.domain.routing import BreakerLimits
from stoker.domain.tier import Tier
from stoker.request.decide.failover import HealthEffect, rule_for
from stoker_auto.decide.breaker import Breaker, BreakerState


class TierHealth:
    """Events of tiers that a reload has removed are ignored. What is known of the other tiers is kept."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._limits: BreakerLimits | None = None
        self._breakers: dict[str, Breaker] = {}

    def configure(self, tiers: Iterable[Tier], limits: BreakerLimits) -> None:
        """If the limits change, every circuit begins closed."""
        before = self._breakers if limits == self._limits else {}
        self._limits = limits
        self._breakers = {
            tier.name: before.get(tier.name) or Breaker(limits.failures, limits.window, limits.cool_down)
            for tier in tiers
        }

    # -- events ------------------------------------------------------------------------------------------------------

    def on_sent(self, tier: str) -> None:
        if (breaker := self._breakers.get(tier)) is not None:
            breaker.on_sent(self._now())

    def on_served(self, tier: str) -> None:
        """It answered; a refusal that is the caller's fault is an answer, too."""
        if (breaker := self._breakers.get(tier)) is not None:
            breaker.on_served(self._now())

    def on_error(self, tier: str, error: StokerError, retry_after: float | None = None) -> None:
        """`retry_after`: seconds for which the tier asked for a pause."""
        breaker, now = self._breakers.get(tier), self._now()
        if breaker is None:
            return
        if retry_after is not None:
            breaker.on_pause(now, retry_after, error.status)
        match rule_for(error).health:
            case HealthEffect.FAULT:
                breaker.on_fault(now)
            case HealthEffect.HANGS:
                breaker.on_hang(now)
            case HealthEffect.WELL:
                breaker.on_served(now)

    # -- questions ---------------------------------------------------------------------------------------------------

    def breaker(self, tier: str) -> Breaker:
        """The circuit breaker of a configured tier."""
        return self._breakers[tier]

    def state(self, tier: str) -> BreakerState:
        return self._breakers[tier].visible_state(self._now())

    def pause(self, tier: str) -> float | None:
        """Seconds left of the pause that the tier asked for; None: it asked for none."""
        return self._breakers[tier].pause(self._now()) or None
