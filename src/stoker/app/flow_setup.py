"""Makes the settings of the request path from a configuration: names, planners, secrets, limits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from stoker.app.clock import SystemClock
from stoker.app.configuration import Configuration, names_of
from stoker.app.fleet_parts import FleetParts
from stoker.app.missing_extensions import planners_of_missing
from stoker.app.server_parts import ServerParts
from stoker.config.secret_words import secrets_of, secrets_of_tables
from stoker.domain.access import Settings
from stoker.domain.serve import Serve
from stoker.exchange.planner import ToolPlanner
from stoker.gateway.settings import FlowSettings, keys_of
from stoker.request.accept.bodies import budget_for
from stoker.request.decide.aliases import describe_aliases, resolve_aliases, with_aliases
from stoker.request.decide.names import Names, ServeStates
from stoker.request.relay.image_fetcher import ImageFetcher


class FlowSetup:
    """`memory`: bytes of this machine; None: unknown."""

    def __init__(self, fleet: FleetParts, extensions: ServerParts, memory: int | None) -> None:
        self._fleet = fleet
        self._extensions = extensions
        self._memory = memory

    def settings_for(
        self, new: Configuration, before: Collection[Serve] = (), must_succeed: bool = False
    ) -> FlowSettings:
        """Make all planners use this configuration; the result is for `Flow.configure`.

        `before`: the serves that were configured until now. `must_succeed`: what an extension raises that cannot plan
        with it is raised; else its names are refused.
        """
        settings = new.settings
        found = self._extensions.planners(new, before, must_succeed)
        planners = tuple(planner for planner in found if not isinstance(planner, ToolPlanner))
        tool_planner = next((planner for planner in found if isinstance(planner, ToolPlanner)), None)
        # `settings.serves` has every cloud, allowed or not: their keys are secrets, too.
        secrets = [secret for serve in settings.serves for secret in secrets_of(serve)]
        return FlowSettings(
            settings.front_door,
            self.names(settings),
            (*planners, *planners_of_missing(settings, planners)),
            ImageFetcher(settings.media),
            (*keys_of(settings.front_door, settings.serves), *secrets, *secrets_of_tables(settings)),
            budget_for(settings.front_door, self._memory),
            settings.compat,
            settings.paths.state,
            tool_planner,
            self._extensions.recorder(settings),
        )

    def names(self, settings: Settings) -> Names:
        """Model names, with each alias at the serve to which it was moved."""
        residency = self._fleet.conductor.residency

        def is_available(name: str) -> bool:
            return not residency.unavailable_reason(name, SystemClock.now())

        serves = with_aliases(settings.serves, self._serve_by_alias(settings))
        return names_of(settings, serves, ServeStates(residency.is_loaded, is_available))

    def _serve_by_alias(self, settings: Settings) -> dict[str, str]:
        moved = {name: one.override.serve for name, one in self._extensions.moved_aliases().items()}
        return resolve_aliases(settings.aliases, moved, settings.serves)

    def aliases(self, settings: Settings) -> list[dict[str, Any]]:
        """For /status: each alias that can be moved, the serve that it points to, and why."""
        return describe_aliases(settings.aliases, self._extensions.moved_aliases(), settings.serves)
