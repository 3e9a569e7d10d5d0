"""Asking a serve over HTTP. If it lists models, always /v1/models, never /health: SGLang's generates a token, and one
that times out stays behind in its scheduler; and vLLM's says 200 while requests hang. With identity `none`: its probe
path, or a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.domain.protocols import Running
from stoker.domain.serve import Serve, ServeIdentity
from stoker.engines.facts import from_models
from stoker.fleet.watchdog.progress import NO_COUNTERS, EngineCounters
from stoker.http import client
from stoker.http.client import HttpResponse, NoResponse

TIMEOUT = 5.0
"""Seconds: an engine that is busy answers later than one that starts."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer of /v1/models. `ids` None: no usable answer; `miss` says why. A serve that lists no models and answers
    its probe has none.
    """

    ids: tuple[str, ...] | None
    context: int | None = None
    miss: str = ""


@dataclass(frozen=True, slots=True)
class HostState:
    """What the host shows of a serve. None: not known; empty: nothing is wrong, or nothing is prescribed."""

    wanted_devices: tuple[str, ...] = ()
    engaged_devices: frozenset[str] | None = None
    missing: tuple[str, ...] | None = None
    differences: tuple[str, ...] | None = None


class HttpProbe:
    """Implements `watchdog.ServeProbe`.

    `parse_metrics(engine, text)` parses an engine's /metrics. `collect(running)` reads its host state, in a thread and
    within a second. Neither raises.
    """

    def __init__(
        self, parse_metrics: Callable[[str, str], EngineCounters], collect: Callable[[Running], HostState]
    ) -> None:
        self._parse_metrics = parse_metrics
        self._collect = collect

    async def models(self, running: Running) -> Listing:
        """Never raises; on cancel the connection is closed."""
        if running.serve.identity is ServeIdentity.NONE:
            return await _probe(running)
        try:
            answer = await _ask(running, "/v1/models")
        except NoResponse as error:
            return Listing(None, miss=str(error))
        models = _models(answer)
        if models is None:
            return Listing(None, miss=f"it answered {answer.status}")
        return Listing(tuple(str(entry.get("id")) for entry in models), _context(running, models))

    async def counters(self, running: Running) -> EngineCounters:
        """What it counts; nothing known if it does not say. Never raises."""
        try:
            answer = await _ask(running, "/metrics")
        except NoResponse:
            return NO_COUNTERS
        if answer.status != 200:
            return NO_COUNTERS
        return self._parse_metrics(running.serve.engine, answer.body.decode("utf-8", "replace"))

    async def host_state(self, running: Running) -> HostState:
        return await asyncio.to_thread(self._collect, running)


def question(serve: Serve) -> str:
    """What the serve is asked, for people."""
    if serve.identity is ServeIdentity.MODELS:
        return "GET /v1/models"
    return "a connection" if serve.probe_path is None else f"GET {serve.probe_path}"


async def _probe(running: Running) -> Listing:
    path = running.serve.probe_path
    try:
        if path is None:
            await client.connect(running.target, TIMEOUT)
            return Listing(())
        answer = await _ask(running, path)
    except NoResponse as error:
        return Listing(None, miss=str(error))
    return Listing(()) if answer.status == 200 else Listing(None, miss=f"it answered {answer.status}")


async def _ask(running: Running, path: str) -> HttpResponse:
    return await client.ask(running.target, path, timeout=TIMEOUT)


def _models(answer: HttpResponse) -> list[dict[str, Any]] | None:
    found = answer.json() if answer.status == 200 else None
    data = found.get("data") if isinstance(found, dict) else None
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else None


def _context(running: Running, models: list[dict[str, Any]]) -> int | None:
    """Tokens that one request may use: as listed now, else as the engine reported when it started."""
    listed = from_models(models, running.target.served_name).get("max_model_len")
    known = listed if listed is not None else running.facts.get("n_ctx")
    return int(known) if isinstance(known, int | float) else None
