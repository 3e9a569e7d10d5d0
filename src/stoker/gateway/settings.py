"""The settings of the request path: one frozen record per configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from stoker.access.caller import Caller
from stoker.domain.access import CompatPaths, ListenSettings, Media
from stoker.domain.serve import Serve
from stoker.exchange.planner import Planner, ToolPlanner
from stoker.exchange.recording import Recorder
from stoker.extensions import FAILURES
from stoker.request.accept.bodies import MIN_BUDGET
from stoker.request.decide.names import Names
from stoker.request.relay.image_fetcher import ImageFetcher

log = logging.getLogger("stoker.extensions")
T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """Passed to `Flow.configure` at a reload, and, with other `names`, when an alias moves."""

    front_door: ListenSettings
    names: Names
    planners: tuple[Planner, ...] = ()
    """Answer requests whose `model` means no serve. Empty: every request names its model."""
    image_fetcher: ImageFetcher = field(default_factory=lambda: ImageFetcher(Media()))
    """Downloads images, if that is allowed."""
    secrets: tuple[str, ...] = ()
    """Secrets to hide in an engine's error texts, besides the keys of the front door and of `names`."""
    body_budget: int = MIN_BUDGET
    """Bytes of request bodies that may be held at once."""
    compat: CompatPaths = field(default_factory=CompatPaths)
    spool: str = ""
    """The directory for bodies that are too large for memory; empty: the system's one for temporary files."""
    tool_planner: ToolPlanner | None = None
    """Runs the tools that requests leave to the server; None: nobody does."""
    recorder: Recorder | None = None
    """Records what requests and answers say; None: nobody does."""
    planner_by_name: Mapping[str, Planner] = field(init=False)
    """Of two planners with the same name, the first counts."""

    def __post_init__(self) -> None:
        by_name = {name: planner for planner in reversed(self.planners) for name in planner.names}
        object.__setattr__(self, "planner_by_name", by_name)

    @property
    def model_names(self) -> set[str]:
        """Every name and pattern that clients may ask for."""
        return {*self.names.known, *(name for planner in self.planners for name in planner.names)}

    def may_be_planned(self, model: str) -> bool:
        """Whether planners have to be asked about a name: one answers to it, or no serve has exactly this name."""
        return model in self.planner_by_name or not self.names.has(model)

    def planner_of(self, model: str) -> Planner | None:
        """Who answers to a name; None: nobody, so it has to be that of a serve."""
        planner = self.planner_by_name.get(model)
        if planner is None and self.planners and not self.names.has(model):
            try:
                planner = next((one for one in self.planners if one.means(model)), None)
            except FAILURES:
                planner = next((one for one in self.planners if _asked(False, one.means, model)), None)
        return planner

    def concerns_planner(self, model: str, caller: Caller) -> bool | None:
        """See `Planner.concerns`; None: no planner means the name."""
        planner = self.planner_of(model)
        return None if planner is None else _asked(False, planner.concerns, model, caller)

    def listed(self, caller: Caller, aliases: bool) -> list[str]:
        """See `Planner.listed`."""
        return [name for planner in self.planners for name in _asked((), _listed, planner, caller, aliases)]

    def describe(self, model: str, caller: Caller) -> Mapping[str, Any] | None:
        """See `Planner.describe`."""
        planner = self.planner_of(model)
        return None if planner is None else _asked(None, planner.describe, model, caller)


def _listed(planner: Planner, caller: Caller, aliases: bool) -> Sequence[str]:
    return tuple(planner.listed(caller, aliases))


def _asked(otherwise: T, question: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What a planner answers; `otherwise`, if it fails."""
    try:
        return question(*arguments, **named)
    except FAILURES:
        log.exception("a planner failed")
        return otherwise


def keys_of(front_door: ListenSettings, serves: Iterable[Serve]) -> list[str]:
    """Every key that is configured."""
    keys = [key.value for key in front_door.keys] + [serve.key for serve in serves if serve.key is not None]
    keys += [one.key for serve in serves for one in serve.also if one.key is not None]
    return [key.reveal() for key in keys]
