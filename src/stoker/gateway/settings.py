"""The settings of the request path: one frozen record per configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stoker.domain.access import CompatPaths, FrontDoor, Media
from stoker.domain.serve import Serve
from stoker.request.accept.bodies import MIN_BUDGET
from stoker.request.decide.names import Names
from stoker.request.relay.image_fetcher import ImageFetcher
from stoker.routing.dispatch import Dispatcher

if TYPE_CHECKING:
    from stoker.orchestrate.orchestrators import Orchestrators


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """Passed to `Flow.configure` at a reload, and, with other `names`, when an alias moves."""

    front_door: FrontDoor
    names: Names
    dispatcher: Dispatcher | None = None
    """Serves requests that name a task; None: no tier is configured, every request names its model."""
    orchestrators: Orchestrators | None = None
    """Answers requests that name an orchestrator; None: none is configured."""
    image_fetcher: ImageFetcher = field(default_factory=lambda: ImageFetcher(Media()))
    """Downloads images, if that is allowed."""
    secrets: tuple[str, ...] = ()
    """Secrets to hide in an engine's error texts, besides the keys of the front door and of `names`."""
    body_budget: int = MIN_BUDGET
    """Bytes of request bodies that may be held at once."""
    compat: CompatPaths = field(default_factory=CompatPaths)
    spool: str = ""
    """The directory for bodies that are too large for memory; empty: the system's one for temporary files."""

    @property
    def model_names(self) -> set[str]:
        """Every name and pattern that clients may ask for."""
        names = {*self.names.known}
        if self.dispatcher is not None:
            names |= self.dispatcher.router.settings.names.keys()
        if self.orchestrators is not None:
            names |= {one["name"] for one in self.orchestrators.configured()}
        return names


def keys_of(front_door: FrontDoor, serves: Iterable[Serve]) -> list[str]:
    """Every key that is configured."""
    keys = [key.value for key in front_door.keys] + [serve.key for serve in serves if serve.key is not None]
    keys += [one.key for serve in serves for one in serve.also if one.key is not None]
    return [key.reveal() for key in keys]
