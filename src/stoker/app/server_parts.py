"""What extensions do inside a running server: the part that each of them offers, and how all of them are called.

A part that raises is named in the log with the method that failed, and called again the next time; a part that cannot
be connected is not used. An extension never ends the server, nor a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stoker.access.key_admin import KeyAdmin
from stoker.app.configuration import Configuration
from stoker.app.context import BuildContext, if_anybody_reads
from stoker.domain.access import Settings
from stoker.domain.decision import Decision
from stoker.domain.events import Event, Notify
from stoker.domain.gate import MovedAlias
from stoker.domain.key import Key
from stoker.domain.lease import Target
from stoker.domain.prediction import Prediction
from stoker.domain.protocols import Clock, EdgeTargets
from stoker.domain.serve import Serve
from stoker.domain.trace import RequestTrace, Tracer
from stoker.domain.usage import ServeUsage
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.exchange.planner import Planner
from stoker.exchange.recording import Recorder
from stoker.exchange.request_context import Recording, RequestContext
from stoker.exchange.upstream_client import UpstreamClient
from stoker.extensions import FAILURES, installed_extensions, load
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.operations import Operation, Page, PagePlace, PageRequest
from stoker.gateway.settings import FlowSettings
from stoker.request.relay.pool import ConnectionPool
from stoker.store.decisions import DecisionLog
from stoker.store.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger("stoker.extensions")
_METHODS = (
    "plan", "recorder", "configure", "on_event", "on_decision", "reloaded", "moved_aliases", "grade_of", "status",
    "metrics", "closing",
)  # fmt: skip
CLOSE_WITHIN = 5.0
"""Seconds for the end of one part."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What a part is built with."""

    settings: Callable[[], Settings]
    """The configuration in effect, whenever it is called."""
    directory: Path
    """Of Stoker's state. A part keeps its files in a folder there that is called as the extension is."""
    clock: Clock
    publish: Notify
    """Publishes an event to all parts of the server."""
    metrics: Metrics
    """Counts of requests since the start."""
    note: Callable[[str, str, str], None] = lambda kind, serve, text: None
    """Puts a line among the events of /status: its kind, the serve that it is about, and a text."""
    announce: Callable[[str], None] = lambda line: None
    """Shows a line to the person who started the server, if that person still reads."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """What a part may use of a server whose own parts are all there. Nothing runs yet."""

    conductor: Conductor
    """Leases, and what is loaded."""
    upstream_client: UpstreamClient
    """Sends clients' requests."""
    client: InternalClient
    """Asks serves in Stoker's own name."""
    formatter: Formatter
    pool: ConnectionPool
    decisions: DecisionLog
    signing_key: Callable[[], bytes]
    record_usage: Callable[[ServeUsage], None]
    """Counts what Stoker itself asked of a serve."""
    flow_settings: Callable[[], FlowSettings]
    """The settings of requests now: names, planners."""
    keys: Callable[[], Sequence[Key]]
    """All keys, disabled ones too, with what they inherit of their applications."""
    asks_for_keys: Callable[[], bool]
    """Whether clients need a key now."""
    key_admin: KeyAdmin
    """Makes keys at run time, and deletes them."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """What a part can ask of the server once it runs."""

    worker_proved: Callable[[str, Target], Awaitable[None]]
    """The worker of an edge answers at this address: serves behind that edge follow it there."""


class ServerPart:
    """What one extension does in the server. Override what is needed: as they stand, the methods do nothing.

    All are called on the event loop's thread and return at once, except `metrics`, `run` and `close`.
    """

    tracer: Tracer | None = None
    """Told of each request when it begins and when it is over. Of several, the first extension's by name counts."""
    edge_targets: EdgeTargets | None = None
    """Knows where the workers of edges are, for serves with `base_url = "edge:NAME"`."""
    predictions: Callable[[], Sequence[Prediction]] | None = None
    """The models that are likely to be wanted next, the likeliest first: the warm pool reads them ahead."""
    watts_of: Callable[[str], float | None] | None = None
    """The mean power with which a serve works, which is the energy of a second of accelerator time; None: unknown."""
    is_observing = True
    """Whether it looks at decisions now; asked for each of them."""

    def connect(self, server: ServerAccess) -> None:
        """Called once, before `plan` and `configure`. A part that raises here is asked nothing any more."""

    def plan(self, configuration: Configuration, before: Collection[Serve]) -> Planner | None:
        """Who answers to names that mean no serve, by this configuration; None: nobody. Called at the start and by each
        reload. `before`: the serves that were configured until now. If it raises, the reload changes nothing.
        """
        return None

    def recorder(self, settings: Settings) -> Recorder | None:
        """What sees the content of requests by this configuration; None: nothing. Called as `plan` is. Of several, the
        first extension's by name counts.
        """
        return None

    def configure(self, settings: Settings) -> None:
        """The configuration in effect: called before `run`, and after each reload."""

    def on_event(self, event: Event) -> None:
        """Something happened: see `stoker.domain.events`."""

    def on_decision(self, decision: Decision) -> None:
        """A request is over, and this is its record. It holds no content."""

    async def reloaded(self, settings: Settings, dry_run: bool) -> Mapping[str, object]:
        """Joined to the report of a reload: what it changed in this part, or would change. JSON-able."""
        return {}

    def moved_aliases(self) -> Mapping[str, MovedAlias]:
        """Aliases that point to another serve than the configuration says, by name."""
        return {}

    def grade_of(self, request: str) -> str:
        """The grade of an answer, for `stoker explain`; empty: it has none."""
        return ""

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        """The document of a path below /admin that the extension names in `Extension.pages`. Raises StokerError."""
        raise NotImplementedError

    def status(self) -> Mapping[str, object]:
        """Joined to the document of /status, by these names. JSON-able."""
        return {}

    def metrics(self) -> Sequence[Metric]:
        """Joined to /metrics. Called in a thread, at each scrape. `stoker.store.families` makes families."""
        return ()

    async def run(self, server: RunningServer) -> None:
        """Runs beside the server until it is cancelled. It may return before."""

    def closing(self) -> None:
        """The server ends: requests that are under way may still take a while."""

    async def drained(self) -> None:
        """Requests are over, `run` was cancelled, and the serves are about to be stopped: give back what is leased."""

    async def close(self) -> None:
        """The serves were stopped, or left running."""


@dataclass
class _Part:
    name: str
    part: ServerPart
    failing: set[str] = field(default_factory=set)
    """Methods whose last call raised: the first of them is in the log."""

    def on_answer(self, method: str) -> None:
        if self.failing:
            self.failing.discard(method)

    async def answer(self, page: PageRequest) -> Mapping[str, object]:
        """See `ServerPart.answer`."""
        try:
            return await self.part.answer(page)
        except SystemExit as error:
            raise RuntimeError(f"extension {self.name}: {page.operation.path} ended with SystemExit") from error

    def on_failure(self, method: str) -> None:
        """Called while the error is handled."""
        if method not in self.failing:
            self.failing.add(method)
            log.exception("extension %s: %s failed", self.name, method)


class ServerParts:
    """The parts of all extensions."""

    def __init__(
        self,
        parts: Mapping[str, ServerPart],
        operations: Mapping[str, Sequence[Operation]] | None = None,
        problems: Mapping[str, str] | None = None,
    ) -> None:
        """`operations`: the paths that parts answer. `problems`: why extensions have no part. Both by the extension's
        name.
        """
        self.by_name = parts
        self.problems = dict(problems or {})
        """Of the extensions that are not used, by name."""
        self._operations = operations or {}
        self.pages: dict[PagePlace, Page] = {}
        """Once `connect` was called."""
        self._use([_Part(name, part) for name, part in parts.items()])
        self.edge_targets = next((one for part in parts.values() if (one := part.edge_targets) is not None), None)
        predictions = (part.predictions for part in parts.values() if part.predictions is not None)
        self.predictions: Callable[[], Sequence[Prediction]] = next(predictions, tuple)

        powers = (part.watts_of for part in parts.values() if part.watts_of is not None)
        self.watts_of: Callable[[str], float | None] = next(powers, lambda serve: None)

    def _use(self, parts: list[_Part]) -> None:
        self._parts = parts
        self._overriding = {
            method: [one for one in parts if getattr(type(one.part), method) is not getattr(ServerPart, method)]
            for method in _METHODS
        }
        self.observers = [one.part for one in self._overriding["on_decision"]]
        """A request costs nothing where no part looks at its decision."""
        tracers = [(one, one.part.tracer) for one in parts if one.part.tracer is not None]
        self.tracer: Tracer | None = _GuardedTracer(*tracers[0]) if tracers else None

    def connect(self, server: ServerAccess) -> None:
        """A part that fails is asked nothing any more, and answers no path. A path that two of them answer is left to
        the first.
        """
        connected = []
        for one in self._parts:
            try:
                one.part.connect(server)
            except FAILURES as error:
                self.problems[one.name] = f"connect failed: {type(error).__name__}: {error}"
                log.exception("extension %s: connect failed, so it is not used", one.name)
                continue
            connected.append(one)
            for operation in self._operations.get(one.name, ()):
                self.pages.setdefault(operation.place, Page(operation, one.answer))
        self._use(connected)

    def is_used(self, extension: str) -> bool:
        """Whether it has a part that was built and connected."""
        return any(one.name == extension for one in self._parts)

    def planners(
        self, configuration: Configuration, before: Collection[Serve], must_succeed: bool = False
    ) -> tuple[Planner, ...]:
        """`must_succeed`: what a part raises is raised; else that part has no planner."""
        planners = self._ask("plan", configuration, before, use=_checked_planner, must_succeed=must_succeed)
        return tuple(planner for planner in planners if planner is not None)

    def recorder(self, settings: Settings) -> Recorder | None:
        for one in self._overriding["recorder"]:
            try:
                recorder = one.part.recorder(settings)
            except FAILURES:
                one.on_failure("recorder")
            else:
                one.on_answer("recorder")
                if recorder is not None:
                    return _GuardedRecorder(one, recorder)
        return None

    async def reloaded(self, settings: Settings, dry_run: bool) -> dict[str, object]:
        report: dict[str, object] = {}
        for one in self._overriding["reloaded"]:
            answer = await _guarded(one, "reloaded", settings, dry_run)
            report |= answer if isinstance(answer, dict) else {}
        return report

    def moved_aliases(self) -> dict[str, MovedAlias]:
        return {name: one for moved in self._ask("moved_aliases", use=dict) for name, one in moved.items()}

    def grade_of(self, request: str) -> str:
        return next((grade for grade in self._ask("grade_of", request, use=str) if grade), "")

    def configure(self, settings: Settings) -> None:
        self._tell("configure", settings)

    def on_event(self, event: Event) -> None:
        self._tell("on_event", event)

    def on_decision(self, decision: Decision) -> None:
        """To the parts that observe."""
        for one in self._overriding["on_decision"]:
            try:
                if one.part.is_observing:
                    one.part.on_decision(decision)
                    one.on_answer("on_decision")
            except FAILURES:
                one.on_failure("on_decision")

    def status(self) -> dict[str, object]:
        """With `extensions`: the problem of each that is not used, by name."""
        own: dict[str, object] = {"extensions": self.problems}
        return own | {
            name: value for found in self._ask("status", use=_checked_status) for name, value in found.items()
        }

    def metrics(self) -> list[Metric]:
        return [family for found in self._ask("metrics", use=_checked_families) for family in found]

    async def run(self, server: RunningServer) -> None:
        """Until it is cancelled, or all have returned."""
        await asyncio.gather(*[_guarded(one, "run", server) for one in self._parts])

    def closing(self) -> None:
        self._tell("closing")

    async def drained(self) -> None:
        """Of each part at most CLOSE_WITHIN seconds."""
        for one in self._parts:
            await _guarded(one, "drained", within=CLOSE_WITHIN)

    async def close(self) -> None:
        """Of each part at most CLOSE_WITHIN seconds."""
        for one in self._parts:
            await _guarded(one, "close", within=CLOSE_WITHIN)

    def _tell(self, method: str, *arguments: object) -> None:
        for _ in self._ask(method, *arguments):
            pass

    def _ask(
        self, method: str, *arguments: object, use: Callable[[Any], Any] = lambda answer: answer,
        must_succeed: bool = False,
    ) -> Iterator[Any]:  # fmt: skip
        """`use`: makes what is taken of an answer, and raises if it cannot be taken."""
        for one in self._overriding[method]:
            try:
                answer = use(getattr(one.part, method)(*arguments))
            except FAILURES:
                one.on_failure(method)
                if must_succeed:
                    raise
            else:
                one.on_answer(method)
                yield answer


class _GuardedTracer:
    """A tracer that raises is not asked again."""

    def __init__(self, part: _Part, tracer: Tracer) -> None:
        self._part = part
        self._tracer: Tracer | None = tracer

    def begin(self, method: str, scheme: str, headers: Mapping[bytes, bytes], now: float) -> RequestTrace:
        try:
            if self._tracer is not None:
                return self._tracer.begin(method, scheme, headers, now)
        except FAILURES:
            self._part.on_failure("tracer.begin")
            self._tracer = None
        return RequestTrace(0, 0, False, now, method, scheme, None)

    def finish(self, trace: RequestTrace, decision: Decision) -> None:
        try:
            if self._tracer is not None:
                self._tracer.finish(trace, decision)
        except FAILURES:
            self._part.on_failure("tracer.finish")
            self._tracer = None


class _GuardedRecorder:
    """A request that cannot be recorded goes on."""

    def __init__(self, part: _Part, recorder: Recorder) -> None:
        self._part = part
        self._recorder = recorder

    def begin(self, context: RequestContext, body: bytes) -> Recording | None:
        try:
            recording = self._recorder.begin(context, body)
        except FAILURES:
            self._part.on_failure("recorder.begin")
            return None
        self._part.on_answer("recorder.begin")
        return recording


def build_server_parts(context: BuildContext, metrics: Metrics, note: Callable[[str, str, str], None]) -> ServerParts:
    """The parts of all installed extensions. One that cannot be built is left out, with a line in the log."""
    given = ServerContext(
        lambda: context.active.settings, context.directory, context.clock, context.notify, metrics, note,
        if_anybody_reads(context.options.announce),
    )  # fmt: skip
    parts: dict[str, ServerPart] = {}
    operations: dict[str, Sequence[Operation]] = {}
    problems: dict[str, str] = {}
    for installed in installed_extensions():
        problem = installed.problem
        if installed.extension is not None and installed.extension.server:
            try:
                part = load(installed.extension.server)(given)
                if not isinstance(part, ServerPart):
                    raise TypeError(f"{installed.extension.server} gave no ServerPart")
                if installed.extension.pages:
                    operations[installed.name] = load(installed.extension.pages)
                parts[installed.name] = part
            except FAILURES as error:
                problem = f"{type(error).__name__}: {error}"
                log.debug("extension %s", installed.name, exc_info=True)
        if problem:
            problems.setdefault(installed.name, problem)
            log.warning("extension %s (%s) is not used: %s", installed.name, installed.package, problem)
    return ServerParts(parts, operations, problems)


async def _guarded(one: _Part, method: str, *arguments: object, within: float | None = None) -> object:
    """What the method returned; None: it failed."""
    try:
        async with asyncio.timeout(within):
            answer: object = await getattr(one.part, method)(*arguments)
    except FAILURES:
        one.on_failure(method)
        return None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        one.on_failure(method)  # its own
        return None
    one.on_answer(method)
    return answer


def _checked_planner(planner: Planner | None) -> Planner | None:
    if planner is not None and not isinstance(planner, Planner):
        raise TypeError(f"{planner!r} is not a stoker.exchange.planner.Planner")
    return planner


def _checked_status(answer: Mapping[str, object]) -> Mapping[str, object]:
    msgspec.json.encode(answer)
    return dict(answer)


def _checked_families(answer: Iterable[Metric]) -> list[Metric]:
    from prometheus_client.core import Metric

    families = list(answer)
    for family in families:
        if not isinstance(family, Metric):
            raise TypeError(f"{family!r} is not a prometheus_client Metric")
    return families
