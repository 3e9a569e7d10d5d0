"""When is an engine ready? Health, then the exact served id, then (if configured) one token.

Health alone proves little: another model's server may answer, or an engine that cannot decode. For a serve with
identity `none`, health and a living process are all that can be proved, because such engines have no list of models.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from stoker.domain.dialect import SPECS, Dialect
from stoker.domain.lease import Target
from stoker.domain.protocols import Clock
from stoker.domain.serve import Driver, Serve, ServeIdentity
from stoker.engines.capabilities import capabilities
from stoker.engines.facts import from_models
from stoker.engines.registry import engine_of
from stoker.http import client
from stoker.http.client import HttpResponse, NoResponse

INTERVAL = 0.02
SLOW_INTERVAL = 0.2
FAST_FOR = 120.0
"""Seconds of probing at INTERVAL, then at SLOW_INTERVAL, which a longer start does not notice."""
FACTS_TIMEOUT = 0.5
CANARY_TIMEOUT = 60.0
WEIGHTS_PROBE_TIMEOUT = 10.0
CORRECT = "start it, or correct its `base_url`"
_WEIGHTS_PROBE: dict[str, Any] = {"prompt": "One, two, three,", "max_tokens": 8, "temperature": 0, "seed": 1}


Ask = Callable[[Target, str, Any, float], Awaitable[HttpResponse]]
"""As `client.ask`."""


class NotReady(Exception):
    """The engine will never be ready: it answers, but wrongly. The text completes "serve 'x' ..."."""


class NotReachable(NotReady):
    """There is no connection to an external serve, which Stoker cannot start."""


class EngineEnded(Exception):
    """The process ended while it was probed."""


@dataclass(frozen=True, slots=True)
class ReadinessProof:
    """Times of the clock, and facts as in `Running.facts`."""

    health_at: float
    facts: dict[str, str | int | float]


class Readiness:
    """Proves one start. `last` is the result of the last probe, for the error message after a timeout."""

    def __init__(
        self, serve: Serve, address: Target, clock: Clock, ended: asyncio.Event, ask: Ask = client.ask
    ) -> None:
        self.last = "no probe has ended yet"
        self._is_unconnected = False
        """Whether the last probe found no connection, and knew that at once."""
        self._serve = serve
        self.wanted = serve.served_name or serve.name
        self._address = address
        self._clock = clock
        self._ended = ended
        self._ask_address = ask

    async def prove(self, canary: bool | None = None) -> ReadinessProof:
        """Probes until ready, without a limit: put a timeout around it. Raises NotReady or EngineEnded. Leaves nothing
        open. To a process that Stoker starts there is no connection at first; to an external serve there is one at
        once, or NotReachable.

        `canary`: whether to ask for a completion, too; None: as the serve is configured.
        """
        began = self._clock.now()
        while not await self.is_healthy():
            if self._is_unconnected and self._serve.driver is Driver.EXTERNAL:
                raise NotReachable(f"did not answer at {self._serve.base_url} ({self.last}): {CORRECT}")
            await self._pause(began)
        health_at = self._clock.now()
        models: list[dict[str, Any]] | None = None if self._lists_models else []
        while models is None and (models := await self._models()) is None:
            await self._pause(began)
        if self._serve.canary if canary is None else canary:
            while not await self._answers_canary():
                await self._pause(began)
        facts = from_models(models, self.wanted)
        if (page := engine_of(self._serve.engine).facts_page) is not None:
            facts |= page[1](await self._document(page[0]))
        facts |= await capabilities(self._serve, self._address)
        if self._ended.is_set():  # another program answered, or the engine is ending
            raise EngineEnded
        return ReadinessProof(health_at, facts)

    async def weights_probe(self) -> str | None:
        """How the model greedily continues a fixed text: unchanged as long as its weights are.

        None: it does not accept plain completions, or did not answer in time. Ask only while no request runs.
        """
        if Dialect.COMPLETIONS not in self._serve.dialects:
            return None
        answer = await self._ask("/v1/completions", {"model": self.wanted, **_WEIGHTS_PROBE}, WEIGHTS_PROBE_TIMEOUT)
        found = answer.json() if answer is not None and answer.status == 200 else None
        try:
            return str(found["choices"][0]["text"])  # type: ignore[index]
        except (TypeError, LookupError):
            return None

    async def is_healthy(self) -> bool:
        """1. no path, but a list of models: that  2. neither: it accepts a connection  3. every path answers 200"""
        serve = self._serve
        paths = [path for path in (serve.health, serve.probe) if path is not None]
        if not paths and self._lists_models:  # 1
            paths = ["/v1/models"]
        if not paths:  # 2
            return await self._accepts_connections()
        for path in paths:  # 3
            answer = await self._ask(path)
            if answer is not None and answer.status in (404, 405) and serve.base_url is not None and self._lists_models:
                # an external server may lack a health path; its list of models proves as much
                answer = await self._ask("/v1/models")
            if answer is None or answer.status != 200:
                return False
        return True

    @property
    def _lists_models(self) -> bool:
        return self._serve.identity is ServeIdentity.MODELS

    async def _accepts_connections(self) -> bool:
        try:
            await client.connect(self._address)
        except NoResponse as error:
            self.last, self._is_unconnected = (
                f"a connection to port {self._address.port}: {error}",
                error.is_unconnected,
            )
            return False
        self.last = f"port {self._address.port} accepts connections"
        return True

    async def _models(self) -> list[dict[str, Any]] | None:
        """The served models, the wanted one among them; None if there is no usable answer yet. Raises NotReady."""
        answer = await self._ask("/v1/models")
        if answer is None:
            return None
        if answer.status in (401, 403):
            raise NotReady(f"refuses Stoker's key (GET /v1/models answered {answer.status}): set its `key`")
        found = answer.json() if answer.status == 200 else None
        data = found.get("data") if isinstance(found, dict) else None
        if not isinstance(data, list):
            return None
        models = [entry for entry in data if isinstance(entry, dict)]
        ids = [str(entry.get("id")) for entry in models]
        if self.wanted in ids:
            return models
        if not ids:
            self.last = "GET /v1/models answered an empty list"
            return None
        seen = ", ".join(f"'{id[:80]}'" for id in ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
        raise NotReady(f"answers as another model: wanted '{self.wanted}', GET /v1/models shows {seen}; "
                       "correct `served_name`, or the command that starts it")  # fmt: skip

    async def _answers_canary(self) -> bool:
        if self._serve.makes_media:
            return True  # no cheap request works for every engine of audio or images
        asked = (spec for dialect, spec in SPECS.items() if spec.canary and dialect in self._serve.dialects)
        spec = next(asked, Dialect.CHAT.spec)
        path = spec.path
        answer = await self._ask(path, {"model": self.wanted, **(spec.canary or {})}, CANARY_TIMEOUT)
        if answer is None or answer.status in (429, 503):
            return False
        found = answer.json()
        if answer.status != 200 or not isinstance(found, dict) or "error" in found:
            text = answer.body[:200].decode("utf-8", "replace")
            raise NotReady(f"is healthy but fails its canary: POST {path} answered {answer.status}: {text}")
        return True

    async def _document(self, page: str) -> Any:
        try:
            answer = await client.ask(self._address, page, timeout=FACTS_TIMEOUT)
        except NoResponse:
            return None  # readiness does not wait for facts
        return answer.json() if answer.status == 200 else None

    async def _ask(self, path: str, payload: Any = None, timeout: float = client.TIMEOUT) -> HttpResponse | None:
        verb = "GET" if payload is None else "POST"
        try:
            answer = await self._ask_address(self._address, path, payload, timeout)
        except NoResponse as error:
            self.last, self._is_unconnected = f"{verb} {path}: {error}", error.is_unconnected
            return None
        self._is_unconnected = False
        self.last = f"{verb} {path} answered {answer.status}"
        return answer

    async def _pause(self, began: float) -> None:
        """Waits until the next probe. Raises EngineEnded as soon as the process ends."""
        interval = INTERVAL if self._clock.now() - began < FAST_FOR else SLOW_INTERVAL
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval):
                await self._ended.wait()
        if self._ended.is_set():
            raise EngineEnded
