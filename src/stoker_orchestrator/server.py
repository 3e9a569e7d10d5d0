"""The part of the server that answers requests which name an orchestrator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from stoker.app.configuration import Configuration
from stoker.app.server_parts import ServerAccess, ServerContext, ServerPart
from stoker.domain.decision import Decision
from stoker.domain.serve import Serve
from stoker.exchange.planner import Planner
from stoker.extensions import offered
from stoker.gateway.operations import PageRequest
from stoker_orchestrator.counts import OrchestratedCounts
from stoker_orchestrator.memory.pads import Scratchpads
from stoker_orchestrator.pages import ScratchpadPages
from stoker_orchestrator.request import OrchestratorContext, class_declared

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from stoker_orchestrator.orchestrators import Orchestrators

log = logging.getLogger("stoker.app")


def build(context: ServerContext) -> ServerPart:
    return OrchestratorPart(context)


class OrchestratorPart(ServerPart):
    """Where no orchestrator is configured, nothing else of this package is in memory."""

    def __init__(self, context: ServerContext) -> None:
        self._clock = context.clock
        self.pads = Scratchpads(context.directory / "orchestrator", context.clock.wall)
        self._pages = ScratchpadPages(self.pads)
        self._orchestrators: Orchestrators | None = None
        self._counts = OrchestratedCounts()
        self.is_observing = False

    def connect(self, server: ServerAccess) -> None:
        self._server = server

    def plan(self, configuration: Configuration, before: Collection[Serve]) -> Planner | None:
        settings, server, router = configuration.settings, self._server, configuration.settings.router
        self._orchestrators, self.is_observing = None, bool(settings.names_in("orchestrator"))
        if not self.is_observing:
            return None
        from stoker_orchestrator.checks.checker import check_notes
        from stoker_orchestrator.orchestrator import orchestrators_of
        from stoker_orchestrator.orchestrators import Orchestrators

        orchestrators = orchestrators_of(settings)
        for orchestrator in orchestrators:
            for note in check_notes(orchestrator):
                log.warning("orchestrator '%s': %s", orchestrator.name, note)
        context = OrchestratorContext(
            server.conductor,
            server.client,
            server.formatter,
            self.pads,
            self._clock.now,
            self._clock.wall,
            offered("classify") or class_declared,
            settings.front_door.keep_alive,
            {slot.name: slot for slot in settings.slots},
            {} if router is None else {serve.name: serve for serve in settings.serves},
            {} if router is None else {tier.name: tier.serve for tier in router.tiers},
        )
        self._orchestrators = Orchestrators(orchestrators, context)
        self._orchestrators.clean()
        return self._orchestrators

    def on_decision(self, decision: Decision) -> None:
        if decision.orchestrated is not None:
            self._counts.observe(decision, decision.orchestrated)

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        return await asyncio.to_thread(self._pages.records, page.rest, page.query)

    def status(self) -> Mapping[str, object]:
        return {"orchestrators": [] if self._orchestrators is None else self._orchestrators.configured()}

    def metrics(self) -> Sequence[Metric]:
        from stoker_orchestrator.exposition import families

        return list(families(self._counts))
