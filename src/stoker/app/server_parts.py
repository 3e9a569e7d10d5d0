"""What extensions do inside a running server: the part that each of them offers, and how all of them are called.

A part that raises is named in the log with the method that failed, and that method is not called again: an extension
never ends the server, nor a request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stoker.app.context import BuildContext
from stoker.domain.access import Settings
from stoker.domain.decision import Decision
from stoker.domain.events import Event, Notify
from stoker.domain.lease import Target
from stoker.domain.protocols import Clock, EdgeTargets
from stoker.domain.trace import RequestTrace, Tracer
from stoker.extensions import FAILURES, installed_extensions, load
from stoker.store.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger("stoker.extensions")
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

    def configure(self, settings: Settings) -> None:
        """The configuration in effect: called before `run`, and after each reload."""

    def on_event(self, event: Event) -> None:
        """Something happened: see `stoker.domain.events`."""

    def on_decision(self, decision: Decision) -> None:
        """A request is over, and this is its record. It holds no content."""

    def status(self) -> Mapping[str, object]:
        """Joined to the document of /status, by these names. JSON-able."""
        return {}

    def metrics(self) -> Sequence[Metric]:
        """Joined to /metrics. Called in a thread, at each scrape. `stoker.store.families` makes families."""
        return ()

    async def run(self, server: RunningServer) -> None:
        """Runs beside the server until it is cancelled. It may return before."""

    async def close(self) -> None:
        """Requests were drained, and `run` was cancelled."""


@dataclass
class _Part:
    name: str
    part: ServerPart
    failed: set[str]
    """Methods that raised."""


class ServerParts:
    """The parts of all extensions."""

    def __init__(self, parts: Mapping[str, ServerPart]) -> None:
        self._parts = [_Part(name, part, set()) for name, part in parts.items()]
        self._overriding = {
            method: [one for one in self._parts if getattr(type(one.part), method) is not getattr(ServerPart, method)]
            for method in ("configure", "on_event", "on_decision", "status", "metrics")
        }
        """A request costs nothing where no part looks at its decision."""
        tracers = [(one, one.part.tracer) for one in self._parts if one.part.tracer is not None]
        self.tracer: Tracer | None = _GuardedTracer(*tracers[0]) if tracers else None
        self.edge_targets = next((one for part in parts.values() if (one := part.edge_targets) is not None), None)

    def configure(self, settings: Settings) -> None:
        self._tell("configure", settings)

    def on_event(self, event: Event) -> None:
        self._tell("on_event", event)

    def on_decision(self, decision: Decision) -> None:
        self._tell("on_decision", decision)

    def status(self) -> dict[str, object]:
        return {name: value for found in self._ask("status", use=_checked_status) for name, value in found.items()}

    def metrics(self) -> list[Metric]:
        return [family for found in self._ask("metrics", use=_checked_families) for family in found]

    async def run(self, server: RunningServer) -> None:
        """Until it is cancelled, or all have returned."""
        await asyncio.gather(*[_guarded(one, "run", server) for one in self._parts])

    async def close(self) -> None:
        """Of each part at most CLOSE_WITHIN seconds."""
        for one in self._parts:
            await _guarded(one, "close", within=CLOSE_WITHIN)

    def _tell(self, method: str, *arguments: object) -> None:
        for _ in self._ask(method, *arguments):
            pass

    def _ask(self, method: str, *arguments: object, use: Callable[[Any], Any] = lambda answer: answer) -> Iterator[Any]:
        """`use`: makes what is taken of an answer, and raises if it cannot be taken."""
        for one in self._overriding[method]:
            if method in one.failed:
                continue
            try:
                answer = use(getattr(one.part, method)(*arguments))
            except FAILURES:
                _note_failure(one, method)
            else:
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
            _note_failure(self._part, "tracer.begin")
            self._tracer = None
        return RequestTrace(0, 0, False, now, method, scheme, None)

    def finish(self, trace: RequestTrace, decision: Decision) -> None:
        try:
            if self._tracer is not None:
                self._tracer.finish(trace, decision)
        except FAILURES:
            _note_failure(self._part, "tracer.finish")
            self._tracer = None


def build_server_parts(context: BuildContext, metrics: Metrics) -> ServerParts:
    """The parts of all installed extensions. One that cannot be built is left out, with a line in the log."""
    given = ServerContext(lambda: context.active.settings, context.directory, context.clock, context.notify, metrics)
    parts = {}
    for installed in installed_extensions():
        problem = installed.problem
        if installed.extension is not None and installed.extension.server:
            try:
                part = load(installed.extension.server)(given)
                if not isinstance(part, ServerPart):
                    raise TypeError(f"{installed.extension.server} gave no ServerPart")
                parts[installed.name] = part
            except FAILURES as error:
                problem = f"{type(error).__name__}: {error}"
                log.debug("extension %s", installed.name, exc_info=True)
        if problem:
            log.warning("extension %s (%s) is not used: %s", installed.name, installed.package, problem)
    return ServerParts(parts)


async def _guarded(one: _Part, method: str, *arguments: object, within: float | None = None) -> None:
    try:
        async with asyncio.timeout(within):
            await getattr(one.part, method)(*arguments)
    except FAILURES:
        _note_failure(one, method)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        _note_failure(one, method)  # its own


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


def _note_failure(one: _Part, method: str) -> None:
    one.failed.add(method)
    log.exception("extension %s: %s failed, and is not called again", one.name, method)
