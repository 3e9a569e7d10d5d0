"""The fleet: starts serves and proves them, ends them or lets them sleep, finds them again after a restart of ours."""

from __future__ import annotations

import asyncio
import math

import msgspec

from stoker.domain.errors import OurBug, StartFailed, StokerError
from stoker.domain.protocols import Running
from stoker.domain.serve import Driver, Serve
from stoker.fleet.drivers.external import CLOUD_LOOK, SLOWEST_LOOK, START_LIMIT, ExternalWatch, address_of
from stoker.fleet.drivers.unit import Launched
from stoker.fleet.engines.readiness import EngineEnded, NotReady, Readiness
from stoker.fleet.process.start_records import StartRecord
from stoker.fleet.supervision import exit_report, preflight
from stoker.fleet.supervision.lifecycle import LifecycleEvent, LifecycleState
from stoker.fleet.supervision.managed_serve import ManagedServe, OnExit
from stoker.fleet.supervision.serve_registry import LOOK_LIMIT, ServeRegistry

ABORT_GRACE = 2.0
"""Seconds at most that a start which is given up gets between SIGTERM and SIGKILL."""
ADOPT_LIMIT = 5.0
"""Seconds that a serve which was left running has to answer."""


class Supervisor(ServeRegistry):
    """Implements `domain.protocols.Fleet`. All methods belong to the event loop's thread."""

    # -- start and stop --------------------------------------------------------------------------------------------

    async def start(self, serve: Serve, on_exit: OnExit) -> Running:
        """See `Fleet.start`. What is left of an earlier start of the same serve is waited for."""
        self.warm.busy(True)  # nothing is read ahead while something loads
        try:
            running = await self._start(serve, on_exit)
            self.cool(self.warm.started(serve))
            return running
        finally:
            self.warm.busy(False)

    async def _start(self, serve: Serve, on_exit: OnExit) -> Running:
        await self._adopted.wait()
        if (running := await self._woken(serve, on_exit)) is not None:
            return running
        while (earlier := self._held.get(serve.name)) is not None:
            if earlier.state in (LifecycleState.STARTING, LifecycleState.READY):
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
        held = self._held.get(name)
        if held is None:
            return
        may_sleep = keep_warm and held.state is LifecycleState.READY and held.serve.sleep_level is not None
        try:
            if may_sleep and await self._sleep(held):
                return
        except BaseException:  # whoever cancels: nobody knows whether it sleeps, so it ends
            await self._stop(held, grace)
            self.cool(self.warm.gone(name))
            raise
        await self._save_and_stop(held, grace)
        self.cool(self.warm.left(held.serve) if keep_warm else self.warm.gone(name))

    async def forget(self, name: str) -> None:
        """See `Fleet.forget`."""
        await self.conversations.forget(name)

    async def _save_and_stop(self, held: ManagedServe, grace: float) -> None:
        try:
            if held.state is LifecycleState.READY and not self._is_hurried:
                await self.conversations.save(held.serve.name)
        finally:  # whoever cancels: it ends
            await self._stop(held, grace)

    async def _sleep(self, held: ManagedServe) -> bool:
        """Whether it sleeps now; if not, it is to be stopped."""
        name = held.serve.name
        size = (held.measured.bytes or 0) if held.measured is not None and held.serve.sleep_level == 1 else 0
        ended = self.warm.left(held.serve, asleep=size)
        self.cool(ended)
        if name in ended:
            self._log.warning("serve %s is stopped instead of put to sleep: the warm pool has no room for it", name)
            return False
        self._mark(held, asleep=True)  # before it is told: whoever finds it after a crash must not take it for awake
        why = await self._rest.sleep(held)
        if not why and not self.warm.is_sleeper(name):
            why = "the warm pool has no room for it any more"  # it was dropped, or reconfigured, meanwhile
        if not why and held.state is LifecycleState.READY:
            held.happen(LifecycleEvent.SLEPT)
            return True
        self._log.warning("serve %s is stopped instead of put to sleep: %s", name, why or "it ended")
        return False

    async def _woken(self, serve: Serve, on_exit: OnExit) -> Running | None:
        """A sleeper, awake and proved; None: there is none, or it could not be woken and is gone."""
        held = self._held.get(serve.name)
        if held is None or held.state is not LifecycleState.ASLEEP:
            return None
        if not serve.launches_like(held.serve):
            await self._stop(held, held.serve.stop_grace)
            return None
        began = self._clock.now()
        held.happen(LifecycleEvent.WOKEN)
        held.serve, held.on_exit, held.temperature = serve, on_exit, "asleep"
        try:
            why = await self._rest.wake(held)
            if not why:
                held.happen(LifecycleEvent.PROVED)
                self._mark(held, asleep=False)
        except BaseException:
            await self._stop(held, min(serve.stop_grace, ABORT_GRACE))
            raise
        if why:
            self._log.warning("serve %s is started anew instead of woken: %s", serve.name, why)
            await self._stop(held, min(serve.stop_grace, ABORT_GRACE))
            return None
        ready = round(self._clock.now() - began, 4)
        facts = dict(held.record.facts) if held.record is not None else {}
        return held.running(facts | {"health_s": ready, "ready_s": ready})

    async def _start_unit(self, serve: Serve, on_exit: OnExit) -> Running:
        began = self._clock.now()
        problems = preflight.problems(serve, self._ports(), (), with_conflicts=False)
        if problems:
            raise StartFailed(f"serve '{serve.name}' cannot start: {'; '.join(problems)}", code="cannot_start")
        for other in list(self._held.values()):  # a sleeper holds its port
            if other.state is LifecycleState.ASLEEP and other.address.port == serve.port:
                await self._stop(other, other.serve.stop_grace)
                self.cool(self.warm.gone(other.serve.name))
        await self._disable(serve)
        temperature = await self.warm.temperature(serve)
        launched = await self._launch(serve)
        record = launched.record
        held = ManagedServe(serve, on_exit, launched.address, began, record.started_at, record)
        held.log, held.log_start, held.temperature = launched.log, launched.log_start, temperature
        try:
            self._take(held, LifecycleEvent.LAUNCHED)
        except ProcessLookupError:
            self._records.remove(record)
            held.left_unasked = True
            raise exit_report.ended_while_starting(held, self._clock.now()) from None
        try:
            self._write(held, record)
            spawned = self._clock.now()
            proof = await self._prove(held, serve.ready_timeout)
            ready = self._clock.now()
            facts = (
                record.facts
                | proof.facts
                | {
                    "spawn_s": round(spawned - began, 4),
                    "health_s": round(proof.health_at - began, 4),
                    "ready_s": round(ready - began, 4),
                }
            )
            # Only now: a wrapper that replaced itself by the engine has changed its command line meanwhile.
            command = self._keys.command(record.pid)
            self._write(held, msgspec.structs.replace(record, command=command, ready=True, facts=facts))
            held.happen(LifecycleEvent.PROVED)
        except BaseException:
            await self._stop(held, min(serve.stop_grace, ABORT_GRACE))
            raise
        self._weigh(held)
        self.conversations.started(serve, held.address, facts, is_fresh=True)
        return held.running(facts)

    async def _launch(self, serve: Serve) -> Launched:
        """What is about to be started is on disk before it exists: no crash of ours leaves what nobody knows."""
        intents: list[StartRecord] = []

        def intend(record: StartRecord) -> None:
            intents.append(record)
            self._write(None, record)

        if self._is_closed:  # meanwhile
            text = f"serve '{serve.name}' was stopped while it was starting: Stoker is shutting down"
            raise StartFailed(text, code="stopped")
        try:
            return await self._driver(serve.driver).launch(serve, self._ports(), self._clock.wall(), intend)
        except BaseException:
            for record in intents:
                self._records.remove(record)
            raise

    async def _start_external(self, serve: Serve, on_exit: OnExit) -> Running:
        began = self._clock.now()
        held = ManagedServe(serve, on_exit, address_of(serve), began, self._clock.wall())
        self._take(held, LifecycleEvent.LAUNCHED)
        try:
            proof = await self._prove(held, min(serve.ready_timeout, START_LIMIT))
            held.happen(LifecycleEvent.PROVED)
        except BaseException:
            await self._stop(held, 0.0)
            raise
        readiness = Readiness(serve, held.address, self._clock, held.ended)
        slowest = CLOUD_LOOK if serve.translation.cloud else SLOWEST_LOOK
        held.watch = ExternalWatch(serve.name, readiness.is_healthy, lambda: self._lost(held, readiness), slowest)
        ready = round(self._clock.now() - began, 4)
        return held.running(proof.facts | {"health_s": round(proof.health_at - began, 4), "ready_s": ready})

    # -- across restarts of ours -----------------------------------------------------------------------------------

    async def adopt(self, serves: list[Serve], on_exit: OnExit) -> list[Running]:
        """See `Fleet.adopt`. What runs but is not right any more is stopped; a stranger with its number is left alone.

        A `start` meanwhile waits. On cancel: what was adopted stays adopted, what is being stopped ends first.
        """
        wanted = {serve.name: serve for serve in serves if serve.driver is not Driver.EXTERNAL}
        records = [record for record in self._records.load() if record.name not in self._held]
        self._adopted.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                looks = [tasks.create_task(self._adopt(record, wanted.get(record.name), on_exit)) for record in records]
            found = [running for look in looks if (running := look.result()) is not None]
            ready = [running for running in found if self._is_ready(running)]  # one may have ended meanwhile
            for running in ready:
                self._weigh(self._held[running.serve.name])
            return ready
        finally:
            self._adopted.set()

    def _is_ready(self, running: Running) -> bool:
        held = self._held.get(running.serve.name)
        return held is not None and held.state is LifecycleState.READY

    async def _adopt(self, record: StartRecord, serve: Serve | None, on_exit: OnExit) -> Running | None:
        found = await self._driver(record.driver).find(record)
        if found is None:
            self._records.remove(record)
            return None
        record = found
        held = self._finder.hold(record, serve, on_exit, self._clock.now())
        try:
            self._take(held, LifecycleEvent.FOUND)
        except ProcessLookupError:
            self._records.remove(record)
            return None
        try:
            reason = self._finder.unfit(record, serve) or await self._still_answers(held)
        except asyncio.CancelledError:
            if held.state is LifecycleState.STARTING:
                self._release(held)
            raise
        if not reason:
            held.happen(LifecycleEvent.PROVED)
            self.cool(self.warm.started(held.serve))
            self._log.info("serve %s was running as %s: adopted", record.name, _what(record))
            self.conversations.started(held.serve, held.address, record.facts, is_fresh=False)
            return held.running(dict(record.facts))
        self._log.warning("serve %s was left running as %s and is stopped: %s", record.name, _what(record), reason)
        try:
            await self._stop(held, record.grace)
        except StokerError as failure:
            self._log.error("serve %s: %s", record.name, failure)
        return None

    async def _still_answers(self, held: ManagedServe) -> str:
        """Empty, or why the serve is not what it was."""
        readiness = Readiness(held.serve, held.address, self._clock, held.ended)
        try:
            async with asyncio.timeout(ADOPT_LIMIT):
                await readiness.prove(canary=False)
        except TimeoutError:
            return f"it does not answer ({readiness.last})"
        except EngineEnded:
            return "it ended meanwhile"
        except NotReady as failure:
            return f"it {failure}"
        return ""

    def hurry(self, leave_running: bool) -> None:
        """See `Fleet.hurry`."""
        self._is_hurried = True
        for task in self._patient:
            task.cancel()
        for held in list(self._held.values()):
            if held.unit is None or self._stays(held, leave_running):
                continue
            held.happen(LifecycleEvent.STOP_ASKED)
            held.ended.set()
            held.unit.begin_end(0.0)

    def _stays(self, held: ManagedServe, leave_running: bool) -> bool:
        can_stay = leave_running and held.unit is not None and not held.serve.die_with_parent
        return can_stay and held.state is LifecycleState.READY

    async def close(self, leave_running: bool) -> None:
        """See `Fleet.close`. Serves that die with their parent are stopped in any case. Twice: nothing.

        On cancel the stopping goes on, and the call returns when it is done.
        """
        self._is_closed = True
        stopping = []
        for held in list(self._held.values()):
            if self._stays(held, leave_running):
                self._release(held)
            else:
                stopping.append(self._save_and_stop(held, held.serve.stop_grace))
        try:
            for failure in await asyncio.gather(*stopping, return_exceptions=True):
                if isinstance(failure, Exception):
                    self._log.error("a serve could not be stopped: %s", failure)
        finally:
            if self._weighing:  # a look at /proc takes milliseconds; a driver that hangs is not waited for
                _, late = await asyncio.wait(self._weighing, timeout=LOOK_LIMIT)
                for task in late:
                    task.cancel()
            await self._logs.close()
            await self.conversations.close()


def _what(record: StartRecord) -> str:
    return f"process {record.pid}" if record.driver == Driver.PROCESS else f"{record.driver} {record.handle}"
