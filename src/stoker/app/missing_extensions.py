"""Names that the configuration makes, and promotions, whose extension does not answer: it is not installed, or failed.
Whoever uses them is told which extension it is, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from stoker.access.caller import Caller
from stoker.domain.access import Settings
from stoker.domain.errors import StokerError
from stoker.domain.gate import Override
from stoker.domain.routing import AUTO
from stoker.exchange.planner import PlannedRequest, Planner
from stoker.extensions import missing_because

ROUTING = "auto"
"""The extension that routes, and promotes aliases."""


class MissingPlanner(Planner):
    """Refuses the names of an extension that does not answer."""

    def __init__(self, extension: str, names: Iterable[str]) -> None:
        self._extension = extension
        self.names = tuple(names)

    def means(self, model: str) -> bool:
        return self._extension == ROUTING and _folded(model).partition(":")[0] == AUTO

    def concerns(self, model: str, caller: Caller) -> bool:
        if self._extension != ROUTING:
            return caller.may_use_name(model)
        return caller.may_use_task(model) or caller.may_use_task(_folded(model))

    async def plan(self, request: PlannedRequest) -> None:
        """Raises StokerError for everybody who may use the name."""
        if request.is_renamed or self.concerns(request.model, request.caller):
            name = self._extension
            text = f"model {request.model[:100]!r} is answered by the extension {name}, {missing_because(name)}"
            raise StokerError(text, code="not_installed", status=503)


def _folded(model: str) -> str:
    """`auto:CLASS` as it is configured, of a name in any case and with blanks around."""
    return ":".join(word.strip().lower() for word in model.split(":", 1))


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
        ROUTING: [] if settings.router is None else list(settings.router.names),
        "orchestrator": list(settings.names_in("orchestrator")),
    }


def ignored_promotions(settings: Settings) -> Iterator[tuple[str, str]]:
    """Serve, and a sentence, for each alias that was promoted and points to another serve for want of the extension.
    Reads `STATE/overrides.json`.
    """
    try:
        content = (Path(settings.paths.state) / "overrides.json").read_bytes()
        promoted = {one.alias: one.serve for one in msgspec.json.decode(content, type=list[Override])}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return
    for alias in settings.aliases:
        serve = promoted.get(alias.name, alias.serve)
        if serve != alias.serve:
            text = f"alias {alias.name} was promoted to {serve} and points to {alias.serve}, as configured"
            yield serve, f"{text}: promotions need the extension {ROUTING}, {missing_because(ROUTING)}"
