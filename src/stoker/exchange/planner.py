"""The seam for names that mean no serve: who answers a request whose `model` is such a name, and how.

A request that names a serve asks no planner.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from stoker.access.caller import Caller
from stoker.access.quota import Charge
from stoker.domain.dialect import Endpoint
from stoker.domain.errors import ClientError, StokerError
from stoker.domain.server_tools import ServerToolKind, WebPage
from stoker.exchange.attempts import AttemptHooks
from stoker.exchange.request_context import RequestContext
from stoker.request.codec.body_fields import BodyFields
from stoker.request.decide.names import Names
from stoker.request.decide.plan import Plan


class PlannedRequest(NamedTuple):
    """A request, as a planner sees it."""

    call: RequestContext
    caller: Caller
    endpoint: Endpoint
    fields: BodyFields
    body: bytes
    names: Names
    """Of serves."""
    planners: Mapping[str, Planner]
    """All of them, by the names that they answer to."""
    model: str
    """The name to answer to: what the request says, unless another planner asks."""
    is_renamed: bool = False
    """Another planner put this name in the place of one that the caller may use: it needs no permission of its own."""
    route: Route | None = None
    """What another planner has found out about it already."""


class Candidates(NamedTuple):
    """These are asked in order, until one answers."""

    plan: Plan
    hooks: AttemptHooks | None = None


class Answer(NamedTuple):
    """The planner writes the answer itself."""

    write: Callable[[], Coroutine[Any, Any, None]]
    """Returns when the answer has ended. Raises StokerError."""


class Renamed(NamedTuple):
    """The request is answered as if it had asked for this model, whether its caller may use that or not."""

    model: str


class CandidateHealth(Protocol):
    """Learns from attempts how the serves do; by the `tier` of a candidate."""

    def on_sent(self, tier: str) -> None: ...

    def on_served(self, tier: str) -> None: ...

    def on_error(self, tier: str, error: StokerError, retry_after: float | None = None) -> None: ...


class Route(NamedTuple):
    """The class of a request, and who may answer it."""

    task: str
    candidates: Plan
    """In order; empty: nobody may."""
    health: CandidateHealth | None = None


class Planner:
    """Answers to names of one configuration; a reload makes another planner. Override what is needed."""

    names: Sequence[str] = ()
    """Those that it answers to, exactly as clients write them."""

    def means(self, model: str) -> bool:
        """Whether it answers to a name that is not among `names`. Asked only if no serve has it."""
        return False

    def describe(self, model: str, caller: Caller) -> Mapping[str, Any] | None:
        """What lists of models say of a name: its `state`, and more. None: it is no name that this caller may use."""
        return None

    def concerns(self, model: str, caller: Caller) -> bool:
        """Whether this planner answers, or refuses, what this caller asks of a name that it means; if not, the default
        model of the caller's key answers.
        """
        return self.describe(model, caller) is not None

    def listed(self, caller: Caller, aliases: bool) -> Iterable[str]:
        """The names that a list of models shows this caller. `aliases`: also those that stand for others."""
        return ()

    async def plan(self, request: PlannedRequest) -> Candidates | Answer | Renamed | None:
        """How the request is answered; None: this caller may not use the name. Raises StokerError, and what ends a
        request.
        """
        return None

    async def route(self, request: PlannedRequest) -> Route | None:
        """The class of a request that another planner answers; None: this one does not know of classes."""
        return None


class PreparedRequest(NamedTuple):
    """A request whose server tools Stoker runs: as its serves get it, and how they are asked."""

    fields: BodyFields
    body: bytes
    candidates: Candidates


class ToolPlanner(Planner):
    """Runs the tools that a request leaves to the server, web search for one. It answers to no names: it is asked about
    each request that may have such tools, once its serves are known.
    """

    async def prepare(self, request: PlannedRequest, candidates: Candidates) -> PreparedRequest | Answer | None:
        """None: it has no such tools, or its serve runs them itself; then it goes on as it is. An answer: it says what
        went wrong, in a dialect that has a place for that. Raises StokerError: a tool that it cannot do without is not
        there.
        """
        return None

    async def run_tool(
        self, caller: Caller, charge: Charge | None, kind: ServerToolKind, argument: str, results: int,
        on_cost: Callable[[float], None],
    ) -> list[WebPage]:  # fmt: skip
        """What one call brings that a client makes itself, without a model. `charge`: pays for it. `results`: of a
        search, at most. `on_cost` hears what it costs, also if it is cancelled. On cancel nothing of it runs any more.
        Raises StokerError: there is no such tool for this caller, or the call failed.
        """
        text = f"{kind.value} is not set up on this Stoker; the operator can add [tools.NAME]"
        raise ClientError(text, code="server_tool_missing")
