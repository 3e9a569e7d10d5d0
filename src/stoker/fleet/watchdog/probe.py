"""What the watchdog reads of a serve: its answers over HTTP, the progress of its work, and its drift.

If a serve lists models, it is always asked /v1/models, never /health: SGLang's generates a token, and one that times
out stays behind in its scheduler; and vLLM's says 200 while requests hang. With identity `none`: its probe path, or a
connection. Only work is progress: bytes from the serve, tokens and steps that the engine counted, a KV cache that
fills. New arrivals and a longer queue are none: a wedged engine has them too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.domain.protocols import Running
from stoker.domain.serve import Serve, ServeIdentity
from stoker.engines import signals
from stoker.engines.facts import from_models
from stoker.engines.signals import Signals
from stoker.fleet.memory.engaged import NO_DEVICES, EngagedDevices
from stoker.fleet.process.identity import MARK_VARIABLE, StartRecord
from stoker.http import client
from stoker.http.client import HttpResponse, NoResponse

UNCERTAIN_FACTOR = 3.0
"""How many times longer to wait for an engine that does not show its progress on a long prompt."""
MEDIA_FACTOR = 15.0
"""The same for an engine of audio or images: it sends nothing until it has finished, which may take minutes."""


NO_COUNTERS = Signals()


@dataclass(frozen=True, slots=True)
class WorkSample:
    """One sample. `in_flight` counts requests that wait for the serve, not those whose client does not read."""

    in_flight: int
    relayed: int | None
    """Bytes that the serve has sent since it started; None: not counted."""
    counters: Signals = NO_COUNTERS


@dataclass(frozen=True, slots=True)
class WorkProgress:
    """The result of the samples so far. `since`: the clock's time of the last progress, or of the start of the work."""

    work: WorkSample
    since: float
    moved: bool = False


def advance(before: WorkProgress | None, work: WorkSample, now: float) -> WorkProgress:
    """1 the first sample, or no work: the time starts again  2 progress  3 no progress"""
    if before is None or work.in_flight == 0 or before.work.in_flight == 0:  # 1
        return WorkProgress(work, now, before is not None and _moved(before.work, work))
    if _moved(before.work, work):  # 2
        return WorkProgress(work, now, True)
    return WorkProgress(_last_known(before.work, work), before.since)  # 3


def without_progress(progress: WorkProgress, now: float) -> float | None:
    """Seconds; None: there is no work."""
    return now - progress.since if progress.work.in_flight else None


def stall_limit(stall: float, counters: Signals, makes_media: bool = False) -> float:
    """Seconds without progress that are too long.

    MEDIA_FACTOR times `stall` if all that the serve makes is audio or images. Otherwise `stall` if the engine reports
    that it has work, and would show progress on a long prompt. Else UNCERTAIN_FACTOR times that: an engine that reads a
    long prompt sends nothing.
    """
    if makes_media:
        return MEDIA_FACTOR * stall
    shows_prompt_progress = counters.steps is not None or counters.kv_use is not None
    has_work = bool(counters.running) or bool(counters.queued)
    return stall if has_work and shows_prompt_progress else UNCERTAIN_FACTOR * stall


def _moved(before: WorkSample, now: WorkSample) -> bool:
    if before.relayed is not None and now.relayed is not None and before.relayed != now.relayed:
        return True
    pairs = zip(_progress_values(before.counters), _progress_values(now.counters), strict=True)
    return any(old is not None and new is not None and old != new for old, new in pairs)


def _progress_values(counters: Signals) -> tuple[float | None, ...]:
    """A change of one of them is progress. Decode calls of llama.cpp and the share of the KV cache in use also move
    during a long prompt.
    """
    return (counters.steps, counters.kv_use, counters.prompt_tokens, counters.generated_tokens)


def _last_known(before: WorkSample, now: WorkSample) -> WorkSample:
    """Keep the last known counters, so that the sample after one without counters can still be compared."""
    return WorkSample(
        now.in_flight,
        before.relayed if now.relayed is None else now.relayed,
        before.counters if now.counters == NO_COUNTERS else now.counters,
    )


def differences(
    record: StartRecord, fingerprint: str, command: str, environment: Mapping[str, str] | None, serve: Serve
) -> tuple[str, ...] | None:
    """How the process of `record` differs from `serve`, one phrase each; no value is in them. None: it cannot be read.

    `fingerprint` is that of `serve` now, `command` the digest of the running process's command line (empty: not
    readable), `environment` its variables (`processes.environment`).
    """
    found = []
    if fingerprint != record.fingerprint:
        name = serve.replica_of or serve.name
        found.append(
            f"it runs with an older configuration; to start it with this one: `stoker serves down {name}`, then "
            f"`stoker serves up {name}`"
        )
    if command and record.command and command != record.command:
        found.append("its command line has changed since it was started")
    if environment is None or environment.get(MARK_VARIABLE) != record.nonce:
        # Some programs overwrite their command line with a title; it proves nothing then.
        return tuple(found) or None
    changed = sorted(name for name, value in serve.env.items() if environment.get(name) != value)
    if changed:
        found.append(f"its environment differs in {', '.join(changed)}")
    return tuple(found)


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

    devices: EngagedDevices = NO_DEVICES
    missing: tuple[str, ...] | None = None
    differences: tuple[str, ...] | None = None


class HttpProbe:
    """Implements `watchdog.ServeProbe`.

    `collect(running)` reads its host state, in a thread and within a second. It does not raise.
    """

    def __init__(self, collect: Callable[[Running], HostState]) -> None:
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

    async def counters(self, running: Running) -> Signals:
        """What it counts; nothing known if it does not say. Never raises."""
        try:
            answer = await _ask(running, "/metrics")
        except NoResponse:
            return NO_COUNTERS
        if answer.status != 200:
            return NO_COUNTERS
        return signals.read(running.serve.engine, answer.body.decode("utf-8", "replace"))

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
