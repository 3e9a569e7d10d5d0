"""Every serve in our care, and what happens to it. No method here starts one: the supervisor does.

Reading order: `_take` (it is ours from now on), `_left` (a leader ended), `_stop` (we end it), `_gone` (nothing is left
of it).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stoker.domain.access import Conversations, Paths
from stoker.domain.errors import StartFailed
from stoker.domain.events import MemoryMeasured, Notify, ignore
from stoker.domain.protocols import Clock, Running
from stoker.domain.serve import Driver, Serve, Slot
from stoker.fleet.conversations.keeper import ConversationKeeper as Conversing
from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.local import LocalDriver
from stoker.fleet.drivers.unit import UnitDriver as UnitDriver
from stoker.fleet.engines.placement import placement_problems
from stoker.fleet.engines.readiness import EngineEnded, NotReady, Readiness, ReadinessProof
from stoker.fleet.memory.ledger import MemorySize
from stoker.fleet.memory.probe import machine
from stoker.fleet.process.keys import Keys
from stoker.fleet.process.logs import LogKeeper
from stoker.fleet.process.signing import KeySigner
from stoker.fleet.process.start_records import StartRecord, StartRecords
from stoker.fleet.rehydrate.fetch import FetchProgress
from stoker.fleet.rehydrate.rehydrator import Rehydrator, missing
from stoker.fleet.supervision import exit_report, preflight, requirements
from stoker.fleet.supervision.adoption import AdoptionJudge
from stoker.fleet.supervision.lifecycle import LifecycleEvent, LifecycleState
from stoker.fleet.supervision.managed_serve import ManagedServe
from stoker.fleet.supervision.memory_meter import MemoryMeter
from stoker.fleet.supervision.sleep_control import SleepControl
from stoker.fleet.warm.keeper import WarmKeeper as Warming
from stoker.fleet.watchdog.drift import drift, environment_of
from stoker.fleet.watchdog.probe import Circumstances

Found = TypeVar("Found")
LOOK_LIMIT = 2.0
"""Seconds that a look at who holds what may take before a stop."""


@dataclass(frozen=True, slots=True)
class ServeStatistics:
    """One serve in our care, as it is now. None: unknown, or there is none."""

    state: str
    pid: int | None
    port: int
    rss: int | None
    """Resident bytes of its whole process group."""
    log: str | None
    measured: MemorySize | None = None
    """What it was last seen to hold of its slot, and by what."""


@dataclass(frozen=True, slots=True)
class FleetContext:
    """What every fleet is built with. `signing_key` is asked each time: it may be rotated."""

    paths: Paths
    clock: Clock
    log: logging.Logger
    signing_key: Callable[[], bytes]
    slot_of: Callable[[str | None], Slot | None] = lambda name: None
    """A slot by its name, as configured now."""
    notify: Notify = ignore


class ServeRegistry:
    """The part of the fleet that keeps the books. All methods belong to the event loop's thread."""

    def __init__(
        self,
        context: FleetContext,
        warm: Warming | None = None,
        conversations: Conversations = Conversations(),  # noqa: B008  # frozen
    ) -> None:
        paths, clock, log = context.paths, context.clock, context.log
        self._clock = clock
        self._log = log
        self._notify = context.notify
        state = Path(paths.state)
        self._paths = paths
        self._records = StartRecords(state / "serves", log)
        signer = KeySigner(context.signing_key)
        self._keys = Keys(signer)
        self.conversations = Conversing(state / "conversations", conversations, signer, clock, log)
        self._finder = AdoptionJudge(self._keys)
        self._drivers: dict[Driver, UnitDriver] = {}
        self._weights = Rehydrator(paths.state)
        self._fetched: dict[str, FetchProgress] = {}
        self._scales = MemoryMeter(machine(), clock, context.slot_of, log)
        self._rest = SleepControl(clock, self._scales.weigh_group)
        self.warm = warm or Warming(0, (), log, predict=False)
        self._logs = LogKeeper(paths.log_bytes, log)
        self._held: dict[str, ManagedServe] = {}
        self._failures: dict[str, str] = {}
        self._weighing: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._is_hurried = False
        self._patient: set[asyncio.Task[Any]] = set()
        """What is waited for only while nobody is in a hurry."""
        self._adopted = asyncio.Event()
        """Clear while `adopt` looks: what it finds must not be started a second time."""
        self._adopted.set()

    # -- questions -------------------------------------------------------------------------------------------------

    def check(self, serve: Serve) -> list[str]:
        """What stands in the way of a start: one sentence each. Touches nothing; milliseconds, but for `conflicts`."""
        found = preflight.problems(serve, self._ports(), self._pids() if serve.conflicts else ())
        if self._paths.placement:
            found += placement_problems(serve, self._paths.vault)
        return [*found, *self._weights.problems(serve)]

    async def examine(self, serve: Serve, victims: tuple[str, ...] = ()) -> list[str]:
        """See `Fleet.examine`."""
        problems = self.check(serve)
        if problems or serve.driver is Driver.EXTERNAL:
            return problems
        going = [self._members(self._held[name]) for name in victims if name in self._held]
        return [
            *await self._weights.verify(serve),
            *await self._driver(serve.driver).examine(serve),
            *await self._scales.obstacles(serve, [pid for pids in going for pid in pids]),
        ]

    def lacks_weights(self, serve: Serve) -> bool:
        """See `Fleet.lacks_weights`."""
        return serve.source is not None and bool(missing(serve))

    async def fetch(self, serve: Serve) -> None:
        """See `Fleet.fetch`."""

        def tell(progress: FetchProgress) -> None:
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

    def circumstances(self, running: Running) -> Circumstances:
        """What the watchdog looks at once a minute: devices, dependencies, drift. Blocks; any thread may call."""
        serve = running.serve
        held = self._held.get(serve.name)
        if held is None or held.record is None:
            return Circumstances(missing=(), drift=())
        pids = self._members(held)
        wanted, engaged = self._scales.devices(serve, pids)
        changed: tuple[str, ...] | None = ()
        if serve.driver is Driver.PROCESS:
            pid = held.record.pid
            changed = drift(
                held.record, self._keys.fingerprint(serve), self._keys.command(pid), environment_of(pid), serve
            )
        return Circumstances(wanted, engaged, tuple(requirements.unmet_requirements(serve)), changed)

    def failure_of(self, name: str) -> str:
        """See `Fleet.failure_of`."""
        return self._failures.get(name, "")

    def is_asleep(self, name: str) -> bool:
        held = self._held.get(name)
        return held is not None and held.state is LifecycleState.ASLEEP

    def statistics(self) -> dict[str, ServeStatistics]:
        """By serve's name; what is stopped is not in it."""
        return {name: self._statistics(held) for name, held in self._held.items()}

    # -- what happens to a serve -----------------------------------------------------------------------------------

    def _take(self, held: ManagedServe, event: LifecycleEvent) -> None:
        """From now on it is in our care. Raises ProcessLookupError if it is gone, or somebody else's."""
        held.happen(event)
        if held.record is not None:
            driver = self._driver(held.record.driver)
            held.unit = driver.hold(held.record, lambda code: self._left(held, code), lambda: self._gone(held))
        if held.log is not None:
            self._logs.watch(held.log)
        self._held[held.serve.name] = held

    async def _prove(self, held: ManagedServe, limit: float) -> ReadinessProof:
        """Raises StartFailed with everything that helps."""
        readiness = Readiness(held.serve, held.address, self._clock, held.ended)
        try:
            async with asyncio.timeout(limit):
                return await readiness.prove()
        except EngineEnded:
            await self._hear(held)
            raise exit_report.ended_while_starting(held, self._clock.now()) from None
        except NotReady as failure:
            raise exit_report.wrong_answer(held, str(failure)) from None
        except TimeoutError:
            await self._hear(held)
            raise exit_report.not_ready_in_time(held, limit, readiness.last) from None

    async def _hear(self, held: ManagedServe) -> None:
        """Fetch what it said last, where that is not in a log of ours."""
        if held.record is not None and held.log is None:
            held.heard = await self._driver(held.record.driver).said(held.record)

    def _left(self, held: ManagedServe, code: int | None) -> None:
        """The leader of a process group ended. What it left behind is killed; whoever waits for it hears at once."""
        was_ready, was_asleep = held.state is LifecycleState.READY, held.state is LifecycleState.ASLEEP
        is_unasked = held.state is not LifecycleState.STOPPING
        held.happen(LifecycleEvent.EXITED)
        held.left_unasked = is_unasked
        held.ended.set()
        if is_unasked and held.unit is not None:
            held.unit.begin_end(0.0)
        if was_asleep:
            self.cool(self.warm.gone(held.serve.name))
        if was_ready:
            self.cool(self.warm.left(held.serve))
            failure = held.last_words().failure
            self._failures[held.serve.name] = failure.kind.value if failure is not None else ""
            held.on_exit(held.serve.name, exit_report.exit_text(held, code, self._clock.now()))

    def _lost(self, held: ManagedServe, readiness: Readiness) -> None:
        """An external serve does not answer any more."""
        held.watch = None  # it ends by itself
        held.happen(LifecycleEvent.EXITED)
        self._gone(held)
        held.on_exit(held.serve.name, f"stopped answering at {held.serve.base_url}: {readiness.last}")

    async def _stop(self, held: ManagedServe, grace: float) -> None:
        if held.gone.is_set():
            return
        held.happen(LifecycleEvent.STOP_ASKED)
        held.ended.set()
        if held.unit is not None:
            pids = self._members(held)
            before = None
            try:
                with contextlib.suppress(TimeoutError):  # a driver that hangs keeps nobody alive
                    async with asyncio.timeout(LOOK_LIMIT):
                        before = await self._patiently(self._scales.before())
            finally:  # whoever cancels: it ends
                await held.unit.end(0.0 if self._is_hurried else grace)
            if before is not None:
                await self._patiently(self._scales.until_free(held.serve.name, pids, before))
            return
        watch, held.watch = held.watch, None
        self._gone(held)
        if watch is not None:
            await watch.close()

    async def _patiently(self, work: Coroutine[Any, Any, Found]) -> Found | None:
        """What `work` gives; None where there is no time for it, or no more."""
        if self._is_hurried:
            work.close()
            return None
        task = asyncio.get_running_loop().create_task(work)
        self._patient.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._patient.discard(task)
            task.cancel()  # we were cancelled; one that is done does not mind
        return None if task.cancelled() else task.result()

    def _gone(self, held: ManagedServe) -> None:
        """Nothing is left of it."""
        held.happen(LifecycleEvent.GONE)
        if held.record is not None:
            self._records.remove(held.record)
        self._drop(held)

    def _drop(self, held: ManagedServe) -> None:
        if self._held.get(held.serve.name) is held:
            del self._held[held.serve.name]
            self.conversations.stopped(held.serve.name)
        if held.log is not None:
            self._logs.forget(held.log)
        held.gone.set()

    def _release(self, held: ManagedServe) -> None:
        """Watch it no more; it runs on, and its record stays for the next control plane."""
        held.happen(LifecycleEvent.RELEASED)
        if held.unit is not None:
            held.unit.release()
        self._drop(held)

    # -- small things ----------------------------------------------------------------------------------------------

    def cool(self, sleepers: Iterable[str]) -> None:
        """The memory of these sleepers is needed for others: they are ended."""
        for name in sleepers:
            held = self._held.get(name)
            if held is not None and held.state is LifecycleState.ASLEEP and held.unit is not None:
                self._log.info("serve %s sleeps no longer: its memory is needed", name)
                held.happen(LifecycleEvent.STOP_ASKED)
                held.unit.begin_end(held.serve.stop_grace)

    def _weigh(self, held: ManagedServe) -> None:
        """Measure what it holds, beside its first requests."""
        task = asyncio.get_running_loop().create_task(self._weighed(held), name=f"weigh-{held.serve.name}")
        self._weighing.add(task)
        task.add_done_callback(self._weighing.discard)

    async def _weighed(self, held: ManagedServe) -> None:
        measured = await self._scales.weigh(held.serve, self._members(held))
        if held.state is LifecycleState.READY and measured.weight.bytes is not None:
            held.measured = measured.weight
            self._notify(MemoryMeasured(held.serve.name, measured.weight.bytes))

    def _write(self, held: ManagedServe | None, record: StartRecord) -> None:
        try:
            self._records.write(record)
        except OSError as error:
            text = f"serve '{record.name}' was stopped again: its record in the state directory cannot be written"
            raise StartFailed(f"{text} ({error.strerror}): make room there", code="state_unusable") from error
        if held is not None:
            held.record = record

    def _mark(self, held: ManagedServe, asleep: bool) -> None:
        if held.record is not None:
            self._write(held, msgspec.structs.replace(held.record, asleep=asleep))

    def _driver(self, kind: str) -> UnitDriver:
        """Made, and its modules loaded, when the first serve needs it: most fleets have one kind."""
        driver = Driver(kind)
        if driver not in self._drivers:
            self._drivers[driver] = self._new_driver(driver)
        return self._drivers[driver]

    def _new_driver(self, driver: Driver) -> UnitDriver:
        if driver is Driver.COMPOSE:
            from stoker.fleet.drivers.compose import ContainerDriver

            return ContainerDriver(self._paths, self._keys, self._log, self._ports)
        if driver is Driver.SYSTEMD:
            from stoker.fleet.drivers.systemd import SystemdDriver

            return SystemdDriver(Path(self._paths.state), self._keys, self._log)
        return LocalDriver(self._paths, self._keys, self._log, self.conversations.directory)

    async def _disable(self, serve: Serve) -> None:
        """Stop for good what cannot run beside it. Raises StartFailed."""
        if serve.conflicts:
            from stoker.fleet.drivers.conflicts import Conflicts

            for done in await Conflicts(os.environ).disable(serve.conflicts):
                self._log.warning("serve %s: %s", serve.name, done)

    def _ports(self) -> set[int]:
        return {held.record.port for held in self._held.values() if held.record is not None}

    def _pids(self) -> set[int]:
        return {pid for held in self._held.values() for pid in self._members(held)}

    def _members(self, held: ManagedServe) -> list[int]:
        leader = held.unit.pid if held.unit is not None else None
        return process_group.members(leader) if leader is not None else []

    def _statistics(self, held: ManagedServe) -> ServeStatistics:
        pid = held.unit.pid if held.unit is not None else None
        rss = process_group.resident_bytes(pid) if pid is not None else None
        log = str(held.log) if held.log else None
        return ServeStatistics(held.state.value, pid, held.address.port, rss, log, held.measured)
