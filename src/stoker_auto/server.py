"""The part of the server that routes requests for tasks, finds out how good tiers are, and moves aliases."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from stoker.app.configuration import Configuration
from stoker.app.server_parts import RunningServer, ServerAccess, ServerContext, ServerPart
from stoker.domain.access import Settings
from stoker.domain.decision import Decision
from stoker.domain.events import (
    Event,
    PredictionsChanged,
    PromotionWatchEnded,
    ServeAdopted,
    ServeExited,
    ServeIdentified,
    ServeMoved,
    SwapEnded,
)
from stoker.domain.gate import MovedAlias
from stoker.domain.routing import RouterSettings
from stoker.domain.serve import Serve, replicas_of
from stoker.domain.spending import cloud_costs
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.exchange.planner import Planner
from stoker.fleet.process.identity import KeySigner, fingerprint
from stoker.gateway.operations import PageRequest
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.store.profile import unconfigured_rows
from stoker_auto.counts import RoutedCounts
from stoker_auto.pages import AutoPages
from stoker_auto.promotion.overrides import Overrides
from stoker_auto.promotion.promotions import Promotions
from stoker_auto.promotion.results import PromotionResults
from stoker_auto.quality.classifier_model import ClassifierModel
from stoker_auto.quality.classifier_notice import ClassifierNotice
from stoker_auto.quality.demotion import Demoter, Reports
from stoker_auto.quality.fingerprints import FingerprintStore
from stoker_auto.quality.judge import Judge
from stoker_auto.quality.monitor import QualityMonitor
from stoker_auto.quality.shadow import ShadowGrader
from stoker_auto.routing.classifier import classifier
from stoker_auto.routing.collaborators import Collaborators
from stoker_auto.routing.dispatch import Dispatcher
from stoker_auto.routing.prewarm import Prewarmer
from stoker_auto.routing.router import TierRouter
from stoker_auto.routing.tier_quality import TierQuality

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger("stoker.app")


def build(context: ServerContext) -> ServerPart:
    return AutoPart(context)


class AutoPart(ServerPart):
    """Owns the router, which lives as long as tiers are configured: across a reload it keeps what it knows of tiers
    that stay.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self.counts = RoutedCounts()
        self._shown: Mapping[str, object] = {}
        clock = context.clock
        self._prewarmer = Prewarmer(
            lambda: context.publish(PredictionsChanged()), clock.now, asyncio.get_running_loop().call_later
        )
        self.predictions = self._prewarmer.predictions
        self.router: TierRouter | None = None
        self.dispatcher: Dispatcher | None = None
        self._allowed_before: set[tuple[str, str]] = set()
        self._results_writer = ThreadPoolExecutor(1, "promotion-results")

    def connect(self, server: ServerAccess) -> None:
        context = self._context
        clock, directory, counts, note = context.clock, context.directory, self.counts, context.note
        self._server, conductor = server, server.conductor
        self.tier_quality = TierQuality()
        demoter = Demoter(self.tier_quality, directory, conductor.target, clock, Reports(note, counts.observe_demotion))
        fingerprints = FingerprintStore(directory, _launch_of(server.signing_key))
        self.monitor = QualityMonitor(
            self.tier_quality, demoter, fingerprints, conductor.target, note,
            lambda serve: context.publish(ServeIdentified(serve)),
        )  # fmt: skip
        client = InternalClient(server.pool, Formatter(ThinkingSigner((server.signing_key(),)), clock.wall))
        self.classifier_model = ClassifierModel(
            directory, conductor, client, counts.classifier, clock.now, server.record_usage
        )
        judge = Judge(conductor, client, clock.now, server.record_usage)
        self.grader = ShadowGrader(self.tier_quality, directory, judge, counts, clock.wall, note=note)
        self._notice = ClassifierNotice(self.classifier_model, context.announce)
        self.results = PromotionResults(directory, self._results_writer, clock.wall)
        overrides = Overrides(directory / "overrides.json")
        self.promotions = Promotions(overrides, conductor, clock, context.publish, self.results.find)
        self._pages = AutoPages(
            lambda: self.dispatcher, self.promotions, lambda: server.flow_settings().names, server.decisions
        )

    # -- configurations ------------------------------------------------------------------------------------------------

    def plan(self, configuration: Configuration, before: Collection[Serve]) -> Planner | None:
        settings, router = configuration.settings, configuration.settings.router
        self._allowed_before = self._allowed()
        self.promotions.configure(settings.aliases, settings.serves, settings.gates)
        self.counts.set_clouds(cloud_costs(router))
        if router is None:
            self.router = self.dispatcher = None
            self.monitor.use_router(None)
            self._collaborators(configuration, None)
            return None
        for problem in unconfigured_rows(configuration.rows, [tier.name for tier in router.tiers], router.known):
            log.warning("%s", problem)
        self.tier_quality.on_measured(configuration.rows)
        tier_router = self._configured_router(router, settings, before)
        collaborators = self._collaborators(configuration, tier_router)
        self.dispatcher = Dispatcher(self._server.upstream_client, tier_router, collaborators)
        return self.dispatcher

    def _configured_router(self, router: RouterSettings, settings: Settings, before: Collection[Serve]) -> TierRouter:
        """Create the router, or configure the one that exists; identify running serves that it did not know, and those
        whose request parameters changed.
        """
        monitor, existing, conductor = self.monitor, self.router, self._server.conductor
        if existing is None:
            created = TierRouter(
                router, settings.serves, self.tier_quality, conductor.residency, self._context.clock.now,
                usual_first_byte=self._server.upstream_client.first_bytes.usual,
            )  # fmt: skip
            classifier()  # loaded now, not with the first request
            self.router = created
            monitor.use_router(created)
            for name in conductor.running:
                monitor.on_ready(name)
            return created
        old = set(existing.settings.serves)
        existing.configure(router, settings.serves)
        monitor.use_router(existing)
        earlier = {replica.name: replica for serve in before for replica in replicas_of(serve)}
        now = {replica.name: replica for serve in settings.serves for replica in replicas_of(serve)}
        for name in conductor.running:
            serve, one = now.get(name), earlier.get(name)
            if serve is None or one is None or not serve.launches_like(one):
                continue  # one that restarts is identified then
            if (serve.replica_of or name) not in old or serve.request != one.request:
                monitor.on_ready(name)
        return existing

    def _collaborators(self, configuration: Configuration, router: TierRouter | None) -> Collaborators:
        grades, classifies = self.grader.use_router(router), self.classifier_model.use_router(router)
        self._notice.update()
        self._prewarmer.use_router(router)
        predicts = router is not None and configuration.settings.warm.predict and configuration.warm_budget > 0
        return Collaborators(
            self.grader if grades else None,
            self.classifier_model if classifies else None,
            self._prewarmer if predicts else None,
        )

    def _allowed(self) -> set[tuple[str, str]]:
        """Tier and class of each measurement by which a tier may serve."""
        return set() if self.router is None else self.router.allowed()

    async def reloaded(self, settings: Settings, dry_run: bool) -> Mapping[str, object]:
        lost = self.promotions.lost(settings.aliases, settings.serves) if dry_run else await self.promotions.end_lost()
        lapsed = set() if dry_run else self._allowed_before - self._allowed()
        configured = {alias.name: alias.serve for alias in settings.aliases}
        return {
            "lapsed": [{"tier": tier, "class": name} for tier, name in sorted(lapsed)],
            "ended": [{"alias": one.alias, "serve": one.serve, "now": configured.get(one.alias, "")} for one in lost],
        }

    def moved_aliases(self) -> Mapping[str, MovedAlias]:
        return self.promotions.moved()

    # -- what happens --------------------------------------------------------------------------------------------------

    @property
    def is_observing(self) -> bool:  # type: ignore[override]
        return self.router is not None or self.promotions.is_watching

    def on_decision(self, decision: Decision) -> None:
        self.promotions.observe(decision)
        if decision.routed is not None:
            self.monitor.observe(decision.routed)
            self.counts.observe(decision, decision.routed)

    def on_event(self, event: Event) -> None:
        match event:
            case SwapEnded(report):
                for victim in report.victims:
                    self.monitor.on_stopped(victim)
                if report.serve is not None and report.outcome == "ready":
                    self.monitor.on_ready(report.serve)
            case ServeAdopted(serve):
                self.monitor.on_ready(serve)
            case ServeExited(serve):
                self.monitor.on_stopped(serve)
            case ServeMoved(serve):
                self.monitor.on_stopped(serve)  # another worker may have other weights
                self.monitor.on_ready(serve)
            case ServeIdentified():
                self._notice.update()
                self.grader.update_judging()
            case PromotionWatchEnded():
                self.results.save_watch(event)
            case _:
                pass

    async def run(self, server: RunningServer) -> None:
        for ended in await self.promotions.end_lost():
            self._context.announce(
                f"the promotion of {ended.alias} to {ended.serve} has ended, because it is no longer configured"
            )

    def closing(self) -> None:
        self.grader.stop()

    async def drained(self) -> None:
        self.promotions.close()
        self._prewarmer.use_router(None)
        await self.grader.close()
        await self.monitor.close()

    async def close(self) -> None:
        await asyncio.to_thread(self._results_writer.shutdown)

    # -- what is shown -------------------------------------------------------------------------------------------------

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        return await self._pages.answer(page)

    def grade_of(self, request: str) -> str:
        return self.grader.grade_of(request)

    def status(self) -> Mapping[str, object]:
        """Remembered for `metrics`, which is called in another thread: each scrape makes this document first."""
        if self.router is None:
            self._shown = {}
            return {"routing": None}
        found = {"shadow": self.grader.status(), "classifier": self.classifier_model.status()}
        self._shown = {**self.router.status(), **found}
        return {"routing": self._shown}

    def metrics(self) -> Sequence[Metric]:
        from stoker_auto.exposition import families

        return list(families(self.counts, self._shown))


def _launch_of(signing_key: Callable[[], bytes]) -> Callable[[Serve], str]:
    def launch(serve: Serve) -> str:
        """How it, or each of its replicas, is started, and what its requests are made to say: a reload changes that
        without a start. Which slots it has is nothing of the model's.
        """
        one = replicas_of(serve)[0]
        alike = one if one is serve else replace(one, name=serve.name, slot=None)
        started = fingerprint(alike, KeySigner(signing_key))
        return f"{started} {json.dumps(asdict(serve.request), sort_keys=True)}" if serve.request else started

    return launch
