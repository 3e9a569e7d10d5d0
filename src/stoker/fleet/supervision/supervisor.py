"""The fleet: starts and proves serves, stops them or puts them to sleep, and adopts them after a restart of Stoker."""

from __future__ import annotations

import asyncio
import math
import os
from pathlib import Path

import msgspec

from stoker.domain.access import Conversations
from stoker.domain.errors import OurBug, StartFailed
from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.domain.serve import Driver, Serve
from stoker.domain.serve_phase import ServeEvent, ServePhase
from stoker.engines import start_log
from stoker.engines.readiness import EngineEnded, NotReady, Readiness
from stoker.engines.record import FailureKind
from stoker.fleet.conversations.keeper import ConversationKeeper
from stoker.fleet.drivers.external import (
    START_LIMIT,
    ExternalWatch,
    locate,
    on_worker,
)
from stoker.fleet.drivers.unit import Launched, NotGone
from stoker.fleet.process.environment import port_problem
from stoker.fleet.process.identity import Keys, KeySigner, StartRecord
from stoker.fleet.supervision.adoption import Adopter
from stoker.fleet.supervision.managed_serve import ManagedServe, OnExit, ended_while_starting
from stoker.fleet.supervision.memory_meter import MemoryMeter
from stoker.fleet.supervision.serve_registry import FleetContext, ServeRegistry
from stoker.fleet.supervision.sleep_control import WITHOUT_WEIGHTS, SleepControl
from stoker.fleet.supervision.start_checks import StartChecks
from stoker.fleet.warm.keeper import WarmKeeper
from stoker.http import client
from stoker.http.client import KeptConnection

PORT_TRIES = 3
"""Starts of a serve, each on another port that Stoker picks, until a port taken by another program is an error."""


class Supervisor:
    """Implements `domain.protocols.Fleet`. All methods belong to the event loop's thread, but for `host_state`."""

    def __init__(
        self,
        context: FleetContext,
        warm: WarmKeeper | None = None,
        conversations: Conversations = Conversations(),  # noqa: B008  # frozen
    ) -> None:
        self._clock, self._log = context.clock, context.log
        self._edges = context.edges
        signer = KeySigner(context.signing_key)
        keys = Keys(signer)
        meter = MemoryMeter(context.probe, context.clock, context.slot_of, context.log)
        saved = Path(context.paths.state) / "conversations"
        self.conversations = ConversationKeeper(saved, conversations, signer, context.clock, context.log)
        self.warm = warm or WarmKeeper(0, (), context.log, predict=False)
        self.set_busy = self.warm.set_busy
        """See `Fleet.set_busy`. No method in between: it is called with most requests."""
        self._keys = keys
        self._registry = ServeRegistry(context, keys, meter, self.warm, self.conversations)
        self._checks = StartChecks(context.paths, self._registry, meter)
        self._meter = meter
        self.pids = self._registry.pids
        """The processes of all serves, also of those that are asleep. Blocks for milliseconds, in any thread."""
        # What its parts answer: see `Fleet`.
        self.quick_check, self.full_check = self._checks.quick_check, self._checks.full_check
        self.download, self.download_progress = self._checks.download, self._checks.download_progress
        self.start_step = self._registry.start_step
        self.load_percent, self.failure_of = self._registry.load_percent, self._registry.failure_of
        self.is_asleep, self.end_sleepers = self._registry.is_asleep, self._registry.end_sleepers
        self.statistics, self.host_state = self._registry.statistics, self._registry.host_state
        self.forget = self.conversations.forget
        self._adopter = Adopter(context, keys, self._registry, self.warm, self.conversations)
        self._sleep_control = SleepControl(context.clock, meter.weight)
        self._is_closed = False
        self._adopted = asyncio.Event()
        """Not set while `adopt` runs: a serve that it finds must not be started a second time."""
        self._adopted.set()

    # -- start and stop --------------------------------------------------------------------------------------------

    async def start(self, serve: Serve, on_exit: OnExit) -> Running:
        """See `Fleet.start`. Waits until an earlier start of the same serve is gone."""
        self.warm.set_busy(True)  # no weights are read ahead of time while a serve loads
        try:
            running = await self._start(serve, on_exit)
            self._registry.end_sleepers(self.warm.on_started(serve))
            return running
        finally:
            self.warm.set_busy(False)

    async def _start(self, serve: Serve, on_exit: OnExit) -> Running:
        await self._adopted.wait()
        if (running := await self._wake(serve, on_exit)) is not None:
            return running
        while (earlier := self._registry.serves.get(serve.name)) is not None:
            if earlier.phase in (ServePhase.STARTING, ServePhase.READY):
                raise OurBug(f"serve '{serve.name}' was started twice without a stop in between")
            if earlier.unit is not None:
                await earlier.unit.end(math.inf)  # joins the end under way
            else:
                await earlier.gone.wait()
        if self._is_closed:
            raise StartFailed(f"serve '{serve.name}' was not started: Stoker is shutting down", code="stopped")
        if serve.driver is Driver.EXTERNAL:
            return await self._start_external(serve, on_exit)
        return await self._start_unit(serve, on_exit)

    async def stop(self, name: str, grace: float, keep_warm: bool = False) -> None:
        """See `Fleet.stop`. Raises StokerError `unkillable` for a process that survives SIGKILL for a minute."""
        managed = self._registry.serves.get(name)
        if managed is None:
            return
        may_sleep = keep_warm and managed.phase is ServePhase.READY and managed.serve.sleep_level is not None
        try:
            if may_sleep and await self._sleep(managed):
                return
        except BaseException:  # also on cancel: it is unknown whether the engine sleeps, so it ends
            await self._registry.stop(managed, grace)
            self._registry.end_sleepers(self.warm.on_gone(name))
            raise
        await self._save_and_stop(managed, grace)
        self._registry.end_sleepers(self.warm.on_stopped(managed.serve) if keep_warm else self.warm.on_gone(name))

    async def _save_and_stop(self, managed: ManagedServe, grace: float) -> None:
        try:
            if managed.phase is ServePhase.READY and not managed.is_suspended and not self._registry.is_hurried:
                await self.conversations.save(managed.serve.name)
        finally:  # also on cancel
            await self._registry.stop(managed, grace)

    async def _sleep(self, managed: ManagedServe) -> bool:
        """Whether the serve sleeps now; if not, the caller has to stop it."""
        name = managed.serve.name
        keeps_weights = managed.serve.sleep_level != WITHOUT_WEIGHTS
        size = (managed.measured.bytes or 0) if keeps_weights and managed.measured is not None else 0
        ended = self.warm.on_stopped(managed.serve, asleep=size)
        self._registry.end_sleepers(ended)
        if name in ended:
            self._log.warning("serve %s is stopped instead of put to sleep: the warm pool has no room for it", name)
            return False
        self._registry.mark_asleep(managed, asleep=True)
        why = await self._sleep_control.sleep(managed)
        if not why and not self.warm.is_sleeper(name):
            why = "the warm pool has no room for it any more"  # the pool evicted it or was reconfigured
        if not why and managed.phase is ServePhase.READY:
            managed.apply(ServeEvent.SLEPT)
            return True
        self._log.warning("serve %s is stopped instead of put to sleep: %s", name, why or "it exited")
        return False

    async def _wake(self, serve: Serve, on_exit: OnExit) -> Running | None:
        """Wake a sleeping serve. None: it does not sleep, or could not be woken and was stopped."""
        managed = self._registry.serves.get(serve.name)
        if managed is None or managed.phase is not ServePhase.ASLEEP:
            return None
        if not serve.launches_like(managed.serve):
            await self._registry.stop(managed, managed.serve.stop_grace)
            return None
        began = self._clock.now()
        managed.apply(ServeEvent.WOKEN)
        managed.serve, managed.on_exit, managed.start_kind = serve, on_exit, "asleep"
        try:
            why = await self._sleep_control.wake(managed)
            if not why:
                managed.apply(ServeEvent.PROVED)
                self._registry.mark_asleep(managed, asleep=False)
        except BaseException:
            await self._registry.stop(managed, managed.short_grace)
            raise
        if why:
            self._log.warning("serve %s is restarted instead of woken: %s", serve.name, why)
            await self._registry.stop(managed, managed.short_grace)
            return None
        ready = round(self._clock.now() - began, 4)
        facts = dict(managed.record.facts) if managed.record is not None else {}
        return managed.running(facts | {"health_s": ready, "ready_s": ready})

    async def _start_unit(self, serve: Serve, on_exit: OnExit) -> Running:
        began = self._clock.now()
        problems = await self._checks.start_problems(serve)
        if problems:
            raise StartFailed(f"serve '{serve.name}' cannot start: {'; '.join(problems)}", code="cannot_start")
        for other in list(self._registry.serves.values()):  # a sleeping serve keeps its port
            if other.phase is ServePhase.ASLEEP and other.target.port == serve.port:
                await self._registry.stop(other, other.serve.stop_grace)
                self._registry.end_sleepers(self.warm.on_gone(other.serve.name))
        await self._disable_conflicts(serve)
        start_kind = await self.warm.start_kind(serve)
        tries = 0
        while True:
            tries += 1
            launched = await self._launch(serve)
            try:
                return await self._prove_launched(serve, on_exit, launched, began, start_kind)
            except StartFailed as failure:
                if tries == PORT_TRIES or not self._has_lost_port(serve, launched.record, failure):
                    raise
                self._log.warning(
                    "serve %s is started again on another port: another program took port %d first",
                    serve.name, launched.record.port,
                )  # fmt: skip

    def _has_lost_port(self, serve: Serve, record: StartRecord, failure: StartFailed) -> bool:
        """Whether the start failed because another program took the port that Stoker had picked. Nothing of the engine
        is left now, so what still listens on the port is not the engine. A start that ran into its timeout is not
        tried again.
        """
        if serve.port is not None or failure.code == "stopped":
            return False
        if failure.code == FailureKind.PORT_TAKEN:
            return True
        if serve.driver in (Driver.RAY, Driver.BOX):
            return False  # who has the port of another machine cannot be seen from here
        is_late = self._clock.wall() - record.started_at >= serve.ready_timeout
        return not is_late and port_problem(serve.host, record.port) is not None

    async def _prove_launched(
        self, serve: Serve, on_exit: OnExit, launched: Launched, began: float, start_kind: str
    ) -> Running:
        """Watch what was launched until it is ready. Raises StartFailed; nothing of it is left then."""
        record = launched.record
        managed = ManagedServe(serve, on_exit, launched.address, began, record.started_at, record)
        managed.log, managed.log_start, managed.start_kind = launched.log, launched.log_start, start_kind
        try:
            self._registry.take(managed)
        except ProcessLookupError:
            self._registry.records.remove(record)
            managed.ended_unexpectedly = True
            raise ended_while_starting(managed, self._clock.now()) from None
        try:
            self._registry.write_record(managed, record)
            spawned = self._clock.now()
            proof = await self._registry.prove(managed, serve.ready_timeout)
            ready = self._clock.now()
            said = await asyncio.to_thread(start_log.read, managed.log, managed.log_start)
            facts = (
                record.facts
                | proof.facts
                | start_log.facts_of(said, serve.context, proof.facts)
                | {
                    "spawn_s": round(spawned - began, 4),
                    "health_s": round(proof.health_at - began, 4),
                    "ready_s": round(ready - began, 4),
                }
            )
            # Read only now: a wrapper script that replaced itself with the engine has a new command line.
            command = self._keys.command(record.pid)
            self._registry.write_record(
                managed, msgspec.structs.replace(record, command=command, ready=True, facts=facts)
            )
            managed.apply(ServeEvent.PROVED)
            if managed.unit is not None:
                managed.unit.on_ready()
        except BaseException:
            try:
                await self._registry.stop(managed, managed.short_grace)
            except NotGone as failure:  # its place stays used; why the start failed is still what matters
                self._log.warning("serve %s: %s", serve.name, failure.message)
            raise
        self._registry.measure_later(managed)
        self.conversations.started(serve, managed.target, facts, is_fresh=True)
        return managed.running(facts)

    async def _launch(self, serve: Serve) -> Launched:
        """Write the record before the process exists, so that a crash of Stoker leaves no unknown process."""
        written: list[StartRecord] = []

        def write(record: StartRecord) -> None:
            written.append(record)
            self._registry.write_record(None, record)

        if serve.driver is Driver.PROCESS:
            serve = await self._meter.as_started(serve)
        if self._is_closed:  # Stoker may have been closed during an await
            text = f"serve '{serve.name}' was stopped while it was starting: Stoker is shutting down"
            raise StartFailed(text, code="stopped")
        try:
            return await self._registry.driver(serve.driver).launch(
                serve, self._registry.ports(), self._clock.wall(), write
            )
        except BaseException:
            for record in written:
                self._registry.records.remove(record)
            raise

    async def _start_external(self, serve: Serve, on_exit: OnExit) -> Running:
        began = self._clock.now()
        address = await locate(serve, self._edges)
        if self._is_closed:  # Stoker may have been closed during the await
            raise StartFailed(f"serve '{serve.name}' was not started: Stoker is shutting down", code="stopped")
        managed = ManagedServe(serve, on_exit, address, began, self._clock.wall())
        self._registry.take(managed)
        try:
            proof = await self._registry.prove(managed, min(serve.ready_timeout, START_LIMIT))
            managed.apply(ServeEvent.PROVED)
        except BaseException:
            await self._registry.stop(managed, 0.0)
            raise
        self._watch_external(managed)
        ready = round(self._clock.now() - began, 4)
        return managed.running(proof.facts | {"health_s": round(proof.health_at - began, 4), "ready_s": ready})

    def _watch_external(self, managed: ManagedServe) -> None:
        connection = None if managed.serve.translation.cloud else KeptConnection()
        ask = client.ask if connection is None else connection.ask
        readiness = Readiness(managed.serve, managed.target, self._clock, managed.stop_probing, ask)
        managed.watch = ExternalWatch(
            managed.serve.name, readiness.is_healthy, lambda: self._registry.on_lost(managed, readiness), connection
        )

    async def move_external(self, name: str, worker: Target) -> Running | None:
        """Let a ready serve behind an edge answer at another worker. None: it is not ready, or does not prove itself
        there; then nothing has changed.
        """
        managed = self._registry.serves.get(name)
        if managed is None or managed.phase is not ServePhase.READY:
            return None
        address = on_worker(managed.serve, worker)
        try:
            async with asyncio.timeout(START_LIMIT):
                proof = await Readiness(managed.serve, address, self._clock, managed.stop_probing).prove()
        except (NotReady, EngineEnded, TimeoutError) as problem:
            text = "serve %s stays at its old address: at %s:%d it is not ready: %s"
            self._log.warning(text, name, address.host, address.port, problem or "no answer in time")
            return None
        if self._registry.serves.get(name) is not managed or managed.phase is not ServePhase.READY:
            return None  # it was stopped or lost meanwhile
        watch, managed.target = managed.watch, address
        self._watch_external(managed)
        if watch is not None:
            await watch.close()
        return managed.running(proof.facts)

    async def _disable_conflicts(self, serve: Serve) -> None:
        """Stop and disable the units and containers of `conflicts`. Raises StartFailed."""
        if serve.conflicts:
            from stoker.fleet.drivers.conflicts import Conflicts

            for action in await Conflicts(os.environ).disable(serve.conflicts):
                self._log.warning("serve %s: %s", serve.name, action)

    # -- after a restart of Stoker -----------------------------------------------------------------------------------

    async def adopt(self, serves: list[Serve], on_exit: OnExit) -> list[Running]:
        """See `Fleet.adopt`. A serve whose configuration has changed is stopped; an unrelated process that has its
        process id now is left alone.

        A concurrent `start` waits. On cancel: adopted serves stay adopted, and a stop in progress ends first.
        """
        self._adopted.clear()
        try:
            return await self._adopter.adopt(serves, on_exit)
        finally:
            self._adopted.set()

    def hurry(self, leave_running: bool) -> None:
        self._registry.hurry(lambda managed: self._outlives_stoker(managed, leave_running))

    def _outlives_stoker(self, managed: ManagedServe, leave_running: bool) -> bool:
        can_stay = leave_running and managed.unit is not None and not managed.serve.die_with_parent
        return can_stay and managed.phase is ServePhase.READY

    async def close(self, leave_running: bool) -> list[str]:
        """See `Fleet.close`. Serves with `die_with_parent` are stopped in any case. A second call does nothing.

        On cancel the stopping goes on, and the call returns when it is done.
        """
        self._is_closed = True
        stopping, failures = [], []
        for managed in list(self._registry.serves.values()):
            if self._outlives_stoker(managed, leave_running):
                self._registry.release(managed)
            else:
                stopping.append(self._save_and_stop(managed, managed.serve.stop_grace))
        try:
            for failure in await asyncio.gather(*stopping, return_exceptions=True):
                if isinstance(failure, Exception):
                    self._log.error("a serve could not be stopped: %s", failure)
                    failures.append(str(failure))
        finally:
            self._registry.release_rest()
            await self._checks.close()
            await self._registry.close()
            await self.conversations.close()
        return failures
