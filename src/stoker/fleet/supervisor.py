"""The fleet: starts serves and proves them, watches them, stops them, finds them again after a restart of ours.

Reading order: `start` and `stop`, then `_left` (a leader ended) and `_gone` (nothing is left of it), then
`adopt` and `close`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.domain.access import Paths
from stoker.domain.errors import OurBug, StartFailed, StokerError
from stoker.domain.protocols import Clock, Running
from stoker.domain.serve import Driver, Serve
from stoker.fleet import obituary, preflight
from stoker.fleet.adoption import Finder
from stoker.fleet.drivers import group
from stoker.fleet.drivers.external import START_LIMIT, ExternalWatch, address_of
from stoker.fleet.drivers.local import LocalDriver
from stoker.fleet.drivers.unit import Driver as UnitDriver
from stoker.fleet.drivers.unit import Launched
from stoker.fleet.engines.readiness import Ended, NotReady, Proof, Readiness
from stoker.fleet.held import Held, OnExit
from stoker.fleet.keys import Keys
from stoker.fleet.lifecycle import Event, State
from stoker.fleet.logs import LogKeeper
from stoker.fleet.records import Record, Records
from stoker.fleet.rehydrate.fetch import Progress
from stoker.fleet.rehydrate.rehydrator import Rehydrator, missing
from stoker.fleet.rest import Rest
from stoker.fleet.signing import Signer

ABORT_GRACE = 2.0
"""Seconds at most that a start which is given up gets between SIGTERM and SIGKILL."""
ADOPT_LIMIT = 5.0
"""Seconds that a serve which was left running has to answer."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """One serve in our care, as it is now. None: unknown, or there is none."""

    state: str
    pid: int | None
    port: int
    rss: int | None
    """Resident bytes of its whole process group."""
    log: str | None


class Supervisor:
    """Implements `domain.protocols.Fleet`. All methods belong to the event loop's thread."""

    def __init__(self, paths: Paths, clock: Clock, log: logging.Logger, signing_key: Callable[[], bytes]) -> None:
        self._clock = clock
        self._log = log
        state = Path(paths.state)
        self._records = Records(state / "serves", log)
        self._keys = Keys(Signer(signing_key))
        self._finder = Finder(self._keys)
        self._drivers: dict[Driver, UnitDriver] = {Driver.PROCESS: LocalDriver(paths, self._keys, log)}
        self._weights = Rehydrator(paths.state)
        self._fetched: dict[str, Progress] = {}
        self._rest = Rest(clock, group.resident_bytes)
        self._logs = LogKeeper(paths.log_bytes, log)
        self._held: dict[str, Held] = {}
        self._is_closed = False
        self._adopted = asyncio.Event()
        """Clear while `adopt` looks: what it finds must not be started a second time."""
        self._adopted.set()

    # -- questions -------------------------------------------------------------------------------------------------

    def check(self, serve: Serve) -> list[str]:
        """What stands in the way of a start: one sentence each. Touches nothing; milliseconds, but for `conflicts`."""
        found = preflight.problems(serve, self._ports(), self._pids())
        return [*found, *self._weights.problems(serve)]

    async def examine(self, serve: Serve) -> list[str]:
        """See `Fleet.examine`."""
        problems = self.check(serve)
        if not problems and serve.driver is not Driver.EXTERNAL:
            problems = [*await self._weights.verify(serve), *await self._drivers[serve.driver].examine(serve)]
        return problems

    def lacks_weights(self, serve: Serve) -> bool:
        """See `Fleet.lacks_weights`."""
        return serve.source is not None and bool(missing(serve))

    async def fetch(self, serve: Serve) -> None:
        """See `Fleet.fetch`."""

        def tell(progress: Progress) -> None:
            self._fetched[serve.name] = progress

        try:
            await self._weights.rehydrate(serve, tell)
        finally:
            self._fetched.pop(serve.name, None)

    def fetched(self, name: str) -> str:
        """See `Fleet.fetched`."""
        progress = self._fetched.get(name)
        if progress is None:
            return "it begins"
        share = f"{100 * progress.done // progress.total} % of {progress.file}" if progress.total else progress.file
        left = f", about {progress.seconds_left:.0f} s left" if progress.seconds_left is not None else ""
        return f"{share}{left}"

    def statistics(self) -> dict[str, Statistics]:
        """By serve's name; what is stopped is not in it."""
        return {name: self._statistics(held) for name, held in self._held.items()}

    # -- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, serve: Serve, on_exit: OnExit) -> Running:
        """See `Fleet.start`. What is left of an earlier start of the same serve is waited for."""
        await self._adopted.wait()
        if (running := await self._woken(serve, on_exit)) is not None:
            return running
        while (earlier := self._held.get(serve.name)) is not None:
            if earlier.state in (State.STARTING, State.READY):
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
        if keep_warm and held.state is State.READY and held.serve.sleep_level is not None:
            why = await self._rest.sleep(held)
            if not why and held.state is State.READY:
                held.happen(Event.SLEPT)
                self._mark(held, asleep=True)
                return
            self._log.warning("serve %s is stopped instead of put to sleep: %s", name, why or "it ended")
        await self._stop(held, grace)

    async def _woken(self, serve: Serve, on_exit: OnExit) -> Running | None:
        """A sleeper, awake and proved; None: there is none, or it could not be woken and is gone."""
        held = self._held.get(serve.name)
        if held is None or held.state is not State.ASLEEP:
            return None
        if not serve.launches_like(held.serve):
            await self._stop(held, held.serve.stop_grace)
            return None
        began = self._clock.now()
        held.happen(Event.WOKEN)
        held.serve, held.on_exit, held.temperature = serve, on_exit, "asleep"
        try:
            why = await self._rest.wake(held)
            if not why:
                held.happen(Event.PROVED)
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

    async def _stop(self, held: Held, grace: float) -> None:
        if held.gone.is_set():
            return
        held.happen(Event.STOP_ASKED)
        held.ended.set()
        if held.unit is not None:
            await held.unit.end(grace)
            return
        watch, held.watch = held.watch, None
        self._gone(held)
        if watch is not None:
            await watch.close()

    async def _start_unit(self, serve: Serve, on_exit: OnExit) -> Running:
        began = self._clock.now()
        problems = preflight.problems(serve, self._ports(), (), with_conflicts=False)
        if problems:
            raise StartFailed(f"serve '{serve.name}' cannot start: {'; '.join(problems)}", code="cannot_start")
        launched = await self._launch(serve)
        record = launched.record
        held = Held(serve, on_exit, launched.address, began, record.started_at, record)
        held.log, held.log_start = launched.log, launched.log_start
        try:
            self._take(held, Event.LAUNCHED)
        except ProcessLookupError:
            self._records.remove(record)
            held.left_unasked = True
            raise obituary.died(held, self._clock.now()) from None
        try:
            self._write(held, record)
            spawned = self._clock.now()
            proof = await self._prove(held, serve.ready_timeout)
            ready = self._clock.now()
            facts = proof.facts | {
                "spawn_s": round(spawned - began, 4),
                "health_s": round(proof.health_at - began, 4),
                "ready_s": round(ready - began, 4),
            }
            # Only now: a wrapper that replaced itself by the engine has changed its command line meanwhile.
            command = self._keys.command(record.pid)
            self._write(held, msgspec.structs.replace(record, command=command, ready=True, facts=facts))
            held.happen(Event.PROVED)
        except BaseException:
            await self._stop(held, min(serve.stop_grace, ABORT_GRACE))
            raise
        return held.running(facts)

    async def _launch(self, serve: Serve) -> Launched:
        """What is about to be started is on disk before it exists: no crash of ours leaves what nobody knows."""
        intents: list[Record] = []

        def intend(record: Record) -> None:
            intents.append(record)
            self._write(None, record)

        try:
            return await self._drivers[serve.driver].launch(serve, self._ports(), self._clock.wall(), intend)
        except BaseException:
            for record in intents:
                self._records.remove(record)
            raise

    async def _start_external(self, serve: Serve, on_exit: OnExit) -> Running:
        began = self._clock.now()
        held = Held(serve, on_exit, address_of(serve), began, self._clock.wall())
        self._take(held, Event.LAUNCHED)
        try:
            proof = await self._prove(held, min(serve.ready_timeout, START_LIMIT))
            held.happen(Event.PROVED)
        except BaseException:
            await self._stop(held, 0.0)
            raise
        readiness = Readiness(serve, held.address, self._clock, held.ended)
        held.watch = ExternalWatch(serve.name, readiness.is_healthy, lambda: self._lost(held, readiness))
        ready = round(self._clock.now() - began, 4)
        return held.running(proof.facts | {"health_s": round(proof.health_at - began, 4), "ready_s": ready})

    async def _prove(self, held: Held, limit: float) -> Proof:
        """Raises StartFailed with everything that helps."""
        readiness = Readiness(held.serve, held.address, self._clock, held.ended)
        try:
            async with asyncio.timeout(limit):
                return await readiness.prove()
        except Ended:
            raise obituary.died(held, self._clock.now()) from None
        except NotReady as failure:
            raise obituary.wrong(held, str(failure)) from None
        except TimeoutError:
            raise obituary.late(held, limit, readiness.last) from None

    # -- what happens to a serve ---------------------------------------------------------------------------------------

    def _take(self, held: Held, event: Event) -> None:
        """From now on it is in our care. Raises ProcessLookupError if it is gone, or somebody else's."""
        held.happen(event)
        if held.record is not None:
            driver = self._drivers[Driver(held.record.driver)]
            held.unit = driver.hold(held.record, lambda code: self._left(held, code), lambda: self._gone(held))
        if held.log is not None:
            self._logs.watch(held.log)
        self._held[held.serve.name] = held

    def _left(self, held: Held, code: int | None) -> None:
        """The leader of a process group ended. What it left behind is killed; whoever waits for it hears at once."""
        was_ready = held.state is State.READY
        is_unasked = held.state is not State.STOPPING
        held.happen(Event.EXITED)
        held.left_unasked = is_unasked
        held.ended.set()
        if is_unasked and held.unit is not None:
            held.unit.begin_end(0.0)
        if was_ready:
            held.on_exit(held.serve.name, obituary.ended(held, code, self._clock.now()))

    def _lost(self, held: Held, readiness: Readiness) -> None:
        """An external serve does not answer any more."""
        held.watch = None  # it ends by itself
        held.happen(Event.EXITED)
        self._gone(held)
        held.on_exit(held.serve.name, f"stopped answering at {held.serve.base_url}: {readiness.last}")

    def _gone(self, held: Held) -> None:
        """Nothing is left of it."""
        held.happen(Event.GONE)
        if held.record is not None:
            self._records.remove(held.record)
        self._drop(held)

    def _drop(self, held: Held) -> None:
        if self._held.get(held.serve.name) is held:
            del self._held[held.serve.name]
        if held.log is not None:
            self._logs.forget(held.log)
        held.gone.set()

    # -- across restarts of ours ---------------------------------------------------------------------------------------

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
            return [running for look in looks if (running := look.result()) is not None]
        finally:
            self._adopted.set()

    async def _adopt(self, record: Record, serve: Serve | None, on_exit: OnExit) -> Running | None:
        found = await self._drivers[Driver(record.driver)].find(record)
        if found is None:
            self._records.remove(record)
            return None
        record = found
        held = self._finder.hold(record, serve, on_exit, self._clock.now())
        try:
            self._take(held, Event.FOUND)
        except ProcessLookupError:
            self._records.remove(record)
            return None
        try:
            reason = self._finder.unfit(record, serve) or await self._still_answers(held)
        except asyncio.CancelledError:
            if held.state is State.STARTING:
                self._release(held)
            raise
        if not reason:
            held.happen(Event.PROVED)
            self._log.info("serve %s was running as %s: adopted", record.name, _what(record))
            return held.running(dict(record.facts))
        self._log.warning("serve %s was left running as %s and is stopped: %s", record.name, _what(record), reason)
        try:
            await self._stop(held, record.grace)
        except StokerError as failure:
            self._log.error("serve %s: %s", record.name, failure)
        return None

    async def _still_answers(self, held: Held) -> str:
        """Empty, or why the serve is not what it was."""
        readiness = Readiness(held.serve, held.address, self._clock, held.ended)
        try:
            async with asyncio.timeout(ADOPT_LIMIT):
                await readiness.prove(canary=False)
        except TimeoutError:
            return f"it does not answer ({readiness.last})"
        except Ended:
            return "it ended meanwhile"
        except NotReady as failure:
            return f"it {failure}"
        return ""

    def _release(self, held: Held) -> None:
        """Watch it no more; it runs on, and its record stays for the next control plane."""
        held.happen(Event.RELEASED)
        if held.unit is not None:
            held.unit.release()
        self._drop(held)

    async def close(self, leave_running: bool) -> None:
        """See `Fleet.close`. Serves that die with their parent are stopped in any case. Twice: nothing.

        On cancel the stopping goes on, and the call returns when it is done.
        """
        self._is_closed = True
        stopping = []
        for held in list(self._held.values()):
            stays = leave_running and held.unit is not None and not held.serve.die_with_parent
            if stays and held.state is State.READY:
                self._release(held)
            else:
                stopping.append(self._stop(held, held.serve.stop_grace))
        try:
            for failure in await asyncio.gather(*stopping, return_exceptions=True):
                if isinstance(failure, Exception):
                    self._log.error("a serve could not be stopped: %s", failure)
        finally:
            await self._logs.close()

    # -- small things --------------------------------------------------------------------------------------------------

    def _write(self, held: Held | None, record: Record) -> None:
        try:
            self._records.write(record)
        except OSError as error:
            text = f"serve '{record.name}' was stopped again: its record in the state directory cannot be written"
            raise StartFailed(f"{text} ({error.strerror}): make room there", code="state_unusable") from error
        if held is not None:
            held.record = record

    def _mark(self, held: Held, asleep: bool) -> None:
        if held.record is not None:
            self._write(held, msgspec.structs.replace(held.record, asleep=asleep))

    def _ports(self) -> set[int]:
        return {held.record.port for held in self._held.values() if held.record is not None}

    def _pids(self) -> set[int]:
        leaders = [held.unit.pid for held in self._held.values() if held.unit is not None]
        return {pid for leader in leaders if leader is not None for pid in group.members(leader)}

    def _statistics(self, held: Held) -> Statistics:
        pid = held.unit.pid if held.unit is not None else None
        rss = group.resident_bytes(pid) if pid is not None else None
        return Statistics(held.state.value, pid, held.address.port, rss, str(held.log) if held.log else None)


def _what(record: Record) -> str:
    return f"process {record.pid}" if record.driver == Driver.PROCESS else f"{record.driver} {record.handle}"
