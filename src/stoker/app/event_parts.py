"""Builds GET /events."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from stoker.access.caller import Caller
from stoker.app.context import BuildContext
from stoker.app.parts import ProgramParts
from stoker.domain.errors import ClientError
from stoker.domain.nearest import nearest
from stoker.domain.serve import replica_names
from stoker.gateway.events.log_topic import LogTopic
from stoker.gateway.events.streams import EventStreams
from stoker.gateway.events.topics import DecisionTopic, DocumentTopic, ResultTopic, SwapTopic
from stoker.gateway.flow import Flow
from stoker.gateway.requests import RequestsInFlight
from stoker.gateway.status import StatusReport
from stoker.store.swap_history import SwapHistory

_NAME_SHOWN = 80


def build_events(context: BuildContext, parts: ProgramParts, status: StatusReport, swaps: SwapHistory) -> EventStreams:
    topics = (
        DocumentTopic("status", status.document, context.clock.now),
        DocumentTopic("requests", RequestsInFlight(parts.gateway.flow).document, context.clock.now),
        SwapTopic(swaps),
        DecisionTopic(parts.store.decisions),
        ResultTopic(context.directory),
    )
    log_of = partial(_log_of, parts.gateway.flow, Path(context.settings.paths.logs))
    process = f"{int(context.clock.wall() * 1000):x}"
    return EventStreams({one.name: one for one in topics}, log_of, partial(_is_ending, parts), process)


def _is_ending(parts: ProgramParts) -> bool:
    return parts.fleet.conductor.is_closing


def _log_of(flow: Flow, logs: Path, name: str, caller: Caller) -> LogTopic:
    """Of a serve, all its replicas together, or one replica. Raises ClientError 404."""
    usable = [serve for serve in flow.settings.names.serves if caller.may_use(serve)]
    replicas = {serve.name: replica_names(serve) for serve in usable}
    files = {one: (one,) for names in replicas.values() for one in names} | replicas
    if name not in files:
        close = nearest(name[:_NAME_SHOWN], files)
        hint = f"did you mean {close!r}?" if close else f"the serves are {', '.join(replicas) or 'none'}"
        raise ClientError(f"topics: there is no serve {name[:_NAME_SHOWN]!r}; {hint}", code="unknown_serve", status=404)
    return LogTopic(f"logs:{name}", name, partial(_written, [logs / f"{one}.log" for one in files[name]]))


def _written(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if path.exists()]
