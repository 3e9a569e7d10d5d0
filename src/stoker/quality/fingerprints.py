"""Keeps what routing knows of its tiers in step with what runs: the fingerprint of each serve, and whether its answers
have become worse than they were. An alarm brings the checks back and has the preflight run; a tier that fails it, too,
is demoted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from stoker.disk import atomic
from stoker.domain.decision import Routed
from stoker.domain.lease import Target
from stoker.domain.run import Fingerprint
from stoker.domain.serve import Serve
from stoker.measure.statistics.drift import DriftDetector
from stoker.quality.demotion import Demoter, mark_of
from stoker.quality.identify import NoEntry, identify
from stoker.routing.router import Routing

log = logging.getLogger("stoker.routing")


class Last(msgspec.Struct, frozen=True):
    """What a serve was when it last ran, and the launch that it was then."""

    launch: str
    identity: str
    execution: str


class Measured:
    """Owns one task per serve that is being looked at, and that of a preflight; `close` ends them. What is not known
    counts for nothing.

    `launch` digests how a serve is started: as long as that stays, it is taken to be what it last was. It is kept in
    STATE/fingerprints.json, so that it holds over a restart.
    """

    def __init__(
        self,
        state: Path,
        target: Callable[[str], Target | None],
        launch: Callable[[Serve], str],
        note: Callable[[str, str, str], None] = lambda kind, serve, text: None,
        demoter: Demoter | None = None,
        demoted: Callable[[str, str], None] = lambda tier, task_class: None,
    ) -> None:
        """`demoted(tier, task_class)` is called for each demotion."""
        self.routing: Routing | None = None
        self._state = state
        self._target = target
        self._launch = launch
        self._note = note
        self.on_known: Callable[[str], None] = lambda serve: None
        """A serve runs, and was looked at."""
        self._drift = DriftDetector()
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._path = state / "fingerprints.json"
        self._last = self._read()
        self._demoter = demoter or Demoter(state, target, note, count=demoted)

    def begin(self, routing: Routing | None) -> None:
        """Another configuration: what is known of serves that are started as before still counts."""
        self.routing = routing
        self._demoter.begin(routing)
        if routing is None:
            return
        routing.fingerprints.clear()
        for name in routing.router.serves:
            serve, last = routing.named(name), self._last.get(name)
            if serve is not None and last is not None and last.launch == self._launch(serve):
                routing.fingerprints[name] = Fingerprint(last.identity, last.execution)
            else:
                routing.live.discard(name)

    def on_ready(self, name: str) -> None:
        """A serve came up, or was adopted."""
        self.on_stopped(name)
        serve, target = self._known(name), self._target(name)
        if serve is not None and target is not None and not serve.translation.cloud:
            loop = asyncio.get_running_loop()
            self._looking[name] = loop.create_task(self._look(serve, target), name=f"identify-{name}")

    def on_stopped(self, name: str) -> None:
        task = self._looking.pop(name, None)
        if task is not None:
            task.cancel()
        if self.routing is not None:
            self.routing.live.discard(name)
        self._demoter.on_stopped(name)

    def observe(self, routed: Routed) -> None:
        """Each answer of a tier that was checked is a sample. An alarm denies nothing: it brings the checks back, until
        the tier is measured again, and has the preflight run.
        """
        routing = self.routing
        for attempt in routed.attempts:
            if routing is None or not attempt.checked:
                continue
            key, tier = (attempt.tier, routed.task), routing.tier(attempt.tier)
            alarm = self._drift.feed(attempt.tier, routed.task, failed=bool(attempt.findings))
            if alarm is not None and tier is not None and key in routing.rows:
                routing.suspects.add(key)
                text = (
                    f"its answers to {routed.task} fail more often than they did: stoker eval calibrate {attempt.tier}"
                )
                self._note("drift", tier.serve, text)
                self._demoter.on_alarm(tier, routed.task)

    async def close(self) -> None:
        await self._demoter.close()
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self, name: str) -> Serve | None:
        """None: routing has nothing to do with it."""
        if self.routing is None or name not in self.routing.router.serves:
            return None
        return self.routing.named(name)

    async def _look(self, serve: Serve, target: Target) -> None:
        try:
            found = await identify(serve, target, self._state)
        except (NoEntry, OSError) as error:
            log.warning("what serve %s is cannot be told (%r): its answers are checked", serve.name, error)
            return
        routing = self.routing
        if routing is None:
            return
        before = routing.fingerprints.get(serve.name)
        if before is not None and mark_of(before) != mark_of(found):
            for tier in routing.router.tiers:
                if tier.serve == serve.name:
                    self._drift.forget(tier.name)
        routing.fingerprints[serve.name] = found
        routing.live.add(serve.name)
        self._last[serve.name] = Last(self._launch(serve), found.identity, found.execution)
        self._demoter.on_known(serve.name)
        self.on_known(serve.name)
        await asyncio.to_thread(self._write, msgspec.json.encode(self._last))

    def _read(self) -> dict[str, Last]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Last])
        except (OSError, msgspec.DecodeError):
            return {}  # then each serve is looked at when it is loaded

    def _write(self, body: bytes) -> None:
        try:
            atomic.write(self._path, body)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error.strerror)
