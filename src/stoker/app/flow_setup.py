"""Makes the settings of the request path from a configuration: names, tiers, secrets, limits.

A configuration without tiers has no dispatcher. Across a reload, the router keeps what it knows of tiers that stay.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stoker.app.clock import SystemClock
from stoker.app.configuration import Configuration, names_of
from stoker.app.fleet_parts import FleetParts
from stoker.app.quality_parts import QualityParts
from stoker.config.warnings import secrets_of
from stoker.domain.access import Settings
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Serve, replicas_of
from stoker.domain.spending import cloud_costs
from stoker.exchange.carrier import Carrier
from stoker.gateway.settings import FlowSettings, keys_of
from stoker.orchestrate.request import OrchestratorContext
from stoker.quality.promotion.promotions import Promotions
from stoker.request.accept.bodies import budget_for
from stoker.request.decide.names import Names, ServeStates
from stoker.request.relay.image_fetcher import ImageFetcher
from stoker.routing.classifier import classifier
from stoker.routing.collaborators import Collaborators
from stoker.routing.dispatch import Dispatcher
from stoker.routing.router import TierRouter
from stoker.store.profile import unconfigured_rows
from stoker.store.routed import RoutedCounts

if TYPE_CHECKING:
    from stoker.orchestrate.orchestrators import Orchestrators

log = logging.getLogger("stoker.app")


@dataclass(frozen=True, slots=True)
class ExchangeParts:
    """What requests are sent to serves with."""

    carrier: Carrier
    orchestration: OrchestratorContext
    """What orchestrators work with, but for the routing of one configuration."""


class FlowSetup:
    """Owns the router, which lives as long as tiers are configured. `memory`: bytes of this machine; None: unknown."""

    def __init__(
        self,
        fleet: FleetParts,
        quality: QualityParts,
        promotions: Promotions,
        exchange: ExchangeParts,
        counts: RoutedCounts,
        memory: int | None,
    ) -> None:
        self._fleet = fleet
        self._quality = quality
        self._promotions = promotions
        self._carrier = exchange.carrier
        self._orchestration = exchange.orchestration
        self._counts = counts
        self._memory = memory
        self._router: TierRouter | None = None

    def settings_for(self, new: Configuration, before: Collection[Serve] = ()) -> FlowSettings:
        """Make all parts of routing use this configuration; the result is for `Flow.configure`.

        `before`: the serves that were configured until now.
        """
        settings = new.settings
        dispatcher = self._dispatcher(new, before)
        # `settings.serves` has every cloud, allowed or not: their keys are secrets, too.
        secrets = [secret for serve in settings.serves for secret in secrets_of(serve)]
        names = self.names(settings)
        return FlowSettings(
            settings.front_door,
            names,
            dispatcher,
            self._orchestrators(settings, dispatcher),
            ImageFetcher(settings.media),
            (*keys_of(settings.front_door, settings.serves), *secrets),
            budget_for(settings.front_door, self._memory),
            settings.compat,
            settings.paths.state,
        )

    def _orchestrators(self, settings: Settings, dispatcher: Dispatcher | None) -> Orchestrators | None:
        if not settings.orchestrators:
            return None
        from stoker.orchestrate.checks.checker import check_notes
        from stoker.orchestrate.orchestrators import Orchestrators

        for orchestrator in settings.orchestrators:
            for note in check_notes(orchestrator):
                log.warning("orchestrator '%s': %s", orchestrator.name, note)
        keep_alive = settings.front_door.keep_alive
        slots = {slot.name: slot for slot in settings.slots}
        context = replace(self._orchestration, dispatcher=dispatcher, keep_alive=keep_alive, slots=slots)
        orchestrators = Orchestrators(settings.orchestrators, context)
        orchestrators.clean()
        return orchestrators

    def names(self, settings: Settings) -> Names:
        """Model names, with each alias at the serve to which it was moved."""
        residency = self._fleet.conductor.residency

        def is_available(name: str) -> bool:
            return not residency.unavailable_reason(name, SystemClock.now())

        return names_of(settings, self._promotions.serves, ServeStates(residency.is_loaded, is_available))

    def allowed(self) -> set[tuple[str, str]]:
        """Tier and class of each measurement by which a tier may serve."""
        return set() if self._router is None else self._router.allowed()

    def _dispatcher(self, new: Configuration, before: Collection[Serve]) -> Dispatcher | None:
        router = new.settings.router
        self._counts.set_clouds(cloud_costs(router))
        if router is None:
            self._router = None
            self._quality.monitor.use_router(None)
            self._collaborators(new, None)
            return None
        for problem in unconfigured_rows(new.rows, [tier.name for tier in router.tiers], router.known):
            log.warning("%s", problem)
        self._quality.tier_quality.on_measured(new.rows)
        tier_router = self._configured_router(router, new.settings, before)
        return Dispatcher(self._carrier, tier_router, self._collaborators(new, tier_router))

    def _configured_router(self, router: RouterSettings, settings: Settings, before: Collection[Serve]) -> TierRouter:
        """Create the router, or configure the one that exists; identify running serves that it did not know, and those
        whose request parameters changed.
        """
        monitor, existing = self._quality.monitor, self._router
        if existing is None:
            residency = self._fleet.conductor.residency
            created = TierRouter(
                router, settings.serves, self._quality.tier_quality, residency, SystemClock.now,
                usual_first_byte=self._carrier.first_bytes.usual,
            )  # fmt: skip
            classifier()  # loaded now, not with the first request
            self._router = created
            monitor.use_router(created)
            for name in self._fleet.conductor.running:
                monitor.on_ready(name)
            return created
        old = set(existing.settings.serves)
        existing.configure(router, settings.serves)
        monitor.use_router(existing)
        earlier = {replica.name: replica for serve in before for replica in replicas_of(serve)}
        now = {replica.name: replica for serve in settings.serves for replica in replicas_of(serve)}
        for name in self._fleet.conductor.running:
            serve, one = now.get(name), earlier.get(name)
            if serve is None or one is None or not serve.launches_like(one):
                continue  # one that restarts is identified then
            if (serve.replica_of or name) not in old or serve.request != one.request:
                monitor.on_ready(name)
        return existing

    def _collaborators(self, new: Configuration, router: TierRouter | None) -> Collaborators:
        quality, prewarmer = self._quality, self._fleet.prewarmer
        grades, classifies = quality.grader.use_router(router), quality.classifier_model.use_router(router)
        quality.notice.update()
        prewarmer.use_router(router)
        predicts = router is not None and new.settings.warm.predict and new.warm_budget > 0
        return Collaborators(
            quality.grader if grades else None,
            quality.classifier_model if classifies else None,
            prewarmer if predicts else None,
        )
