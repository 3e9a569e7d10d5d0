"""Takes over serves that an earlier run of Stoker left running, if their configuration has not changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from stoker.domain.errors import StokerError
from stoker.domain.protocols import Running
from stoker.domain.serve import IDENTITY_NOT_PROVED, Driver, Serve, ServeIdentity
from stoker.domain.serve_phase import ServeEvent, ServePhase
from stoker.engines.readiness import EngineEnded, NotReady, Readiness
from stoker.fleet.conversations.keeper import ConversationKeeper
from stoker.fleet.process.identity import Keys, StartRecord
from stoker.fleet.supervision.managed_serve import ManagedServe, OnExit
from stoker.fleet.supervision.serve_registry import FleetContext, ServeRegistry
from stoker.fleet.warm.keeper import WarmKeeper

ADOPT_LIMIT = 5.0
"""Seconds within which a serve that was left running has to answer."""


class Adopter:
    """Reads the records of earlier starts. Adopts, stops or forgets each of them."""

    def __init__(
        self,
        context: FleetContext,
        keys: Keys,
        registry: ServeRegistry,
        warm: WarmKeeper,
        conversations: ConversationKeeper,
    ) -> None:
        self._clock, self._log = context.clock, context.log
        self._keys = keys
        self._registry = registry
        self._warm = warm
        self._conversations = conversations

    async def adopt(self, serves: Iterable[Serve], on_exit: OnExit) -> list[Running]:
        wanted = {serve.name: serve for serve in serves if serve.driver is not Driver.EXTERNAL}
        records = [record for record in self._registry.records.load() if record.name not in self._registry.serves]
        async with asyncio.TaskGroup() as tasks:
            adoptions = [tasks.create_task(self._adopt(record, wanted.get(record.name), on_exit)) for record in records]
        adopted = [running for adoption in adoptions if (running := adoption.result()) is not None]
        ready = [running for running in adopted if self._is_ready(running)]  # one may have ended meanwhile
        for running in ready:
            self._registry.measure_later(self._registry.serves[running.serve.name])
        return ready

    def _is_ready(self, running: Running) -> bool:
        managed = self._registry.serves.get(running.serve.name)
        return managed is not None and managed.phase is ServePhase.READY

    async def _adopt(self, record: StartRecord, serve: Serve | None, on_exit: OnExit) -> Running | None:
        running_record = await self._registry.driver(record.driver).find(record)
        if running_record is None:
            self._registry.records.remove(record)
            return None
        record = running_record
        managed = self._managed(record, serve, on_exit)
        try:
            self._registry.take(managed)
        except ProcessLookupError:
            self._registry.records.remove(record)
            return None
        try:
            reason = self._unfit_reason(record, serve) or await self._bad_answer(managed)
        except asyncio.CancelledError:
            if managed.phase is ServePhase.STARTING:
                self._registry.release(managed)
            raise
        if not reason:
            managed.apply(ServeEvent.PROVED)
            self._registry.end_sleepers(self._warm.on_started(managed.serve))
            without = "" if managed.serve.identity is ServeIdentity.MODELS else f"; {IDENTITY_NOT_PROVED}"
            self._log.info("serve %s was running as %s: adopted%s", record.name, _process_name(record), without)
            self._conversations.started(managed.serve, managed.target, record.facts, is_fresh=False)
            return managed.running(dict(record.facts))
        process = _process_name(record)
        self._log.warning("serve %s was left running as %s and is stopped: %s", record.name, process, reason)
        try:
            grace = min(record.grace, managed.short_grace) if record.asleep else record.grace
            await self._registry.stop(managed, grace)
        except StokerError as failure:
            self._log.error("serve %s: %s", record.name, failure)
        return None

    async def _bad_answer(self, managed: ManagedServe) -> str:
        """Empty if the serve answers as it should; else why it cannot be adopted."""
        readiness = Readiness(managed.serve, managed.target, self._clock, managed.stop_probing)
        try:
            async with asyncio.timeout(ADOPT_LIMIT):
                await readiness.prove(canary=False)
        except TimeoutError:
            return f"it does not answer ({readiness.last})"
        except EngineEnded:
            return "it exited meanwhile"
        except NotReady as failure:
            return f"it {failure}"
        return ""

    def _unfit_reason(self, record: StartRecord, serve: Serve | None) -> str:
        """Why a serve that was left running must be stopped, by its record; empty: it may be adopted."""
        if serve is None:
            return "it is no longer configured"
        if record.fingerprint != self._keys.fingerprint(serve):
            return "its configuration has changed"
        if not record.ready:
            return "its start was never completed"
        if record.asleep:
            return "it was asleep"
        return ""

    def _managed(self, record: StartRecord, serve: Serve | None, on_exit: OnExit) -> ManagedServe:
        adopted = serve if serve is not None else Serve(name=record.name, stop_grace=record.grace)
        log = Path(record.log) if record.log else None
        address = self._keys.address(adopted, record)
        return ManagedServe(adopted, on_exit, address, self._clock.now(), record.started_at, record, log, _size(log))


def _process_name(record: StartRecord) -> str:
    return f"process {record.pid}" if record.driver == Driver.PROCESS else f"{record.driver} {record.handle}"


def _size(path: Path | None) -> int:
    try:
        return path.stat().st_size if path is not None else 0
    except OSError:
        return 0
