"""Names that the configuration makes, and whose extension is not installed: requests that use them are told which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from stoker.domain.access import Settings
from stoker.domain.errors import StokerError
from stoker.domain.routing import is_reserved
from stoker.exchange.planner import PlannedRequest, Planner


class MissingPlanner(Planner):
    """Answers to the names of an extension that is not there."""

    def __init__(self, extension: str, names: Iterable[str]) -> None:
        self._extension = extension
        self.names = tuple(names)

    def means(self, model: str) -> bool:
        return is_reserved(model) and is_reserved(self.names[0])

    async def plan(self, request: PlannedRequest) -> None:
        """Raises StokerError for everybody who may use the name."""
        caller, model = request.caller, request.model
        if request.is_renamed or caller.may_use_task(model) or caller.may_use_name(model):
            text = f"model {model[:100]!r} is answered by the extension {self._extension}, which is not installed"
            raise StokerError(f"{text}: `stoker --version -v` lists those that are", code="not_installed", status=503)


def planners_of_missing(settings: Settings, planners: Collection[Planner]) -> list[Planner]:
    """For the names that the configuration makes and that none of these planners answers to."""
    answered = {name for planner in planners for name in planner.names}
    missing: list[Planner] = []
    for extension, names in _names_by_extension(settings).items():
        if left := [name for name in names if name not in answered]:
            missing.append(MissingPlanner(extension, left))
    return missing


def _names_by_extension(settings: Settings) -> Mapping[str, list[str]]:
    return {
        "auto": [] if settings.router is None else list(settings.router.names),
        "orchestrator": [one.name for one in settings.orchestrators],
    }
