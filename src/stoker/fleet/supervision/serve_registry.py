"""The serves that Stoker runs, and what happens to each after its launch.

Reading order: `take` (a serve is added), `_on_exit` (its process exited), `stop` (Stoker stops it), `_on_gone` (no
process of it is left).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from stoker.domain.access import Paths
from stoker.domain.cluster import Cluster
from stoker.domain.errors import StartFailed
from stoker.domain.events import MemoryMeasured, Notify, ignore
from stoker.domain.host_port import host_port
from stoker.domain.protocols import Clock, EdgeTargets, Running
from stoker.domain.serve import Driver, Slot
from stoker.domain.serve_phase import ServeEvent, ServePhase
from stoker.engines import load_progress
from stoker.engines.readiness import EngineEnded, NotReady, Readiness, ReadinessProof
from stoker.extensions import offered_driver
from stoker.fleet.conversations.keeper import ConversationKeeper
from stoker.fleet.drivers import process_group
from stoker.fleet.drivers.local import LocalDriver
from stoker.fleet.drivers.unit import DriverContext
from stoker.fleet.drivers.unit import UnitDriver as UnitDriver
from stoker.fleet.memory.devices import DeviceProbe, machine
from stoker.fleet.memory.ledger import MemorySize
from stoker.fleet.process.identity import Keys, StartRecord, StartRecords
from stoker.fleet.process.logs import LogKeeper
from stoker.fleet.supervision import start_problems
from stoker.fleet.supervision.managed_serve import (
    ManagedServe,
    ended_while_starting,
    exit_text,
    not_ready_in_time,
    wrong_answer,
)
from stoker.fleet.supervision.memory_meter import MemoryMeter
from stoker.fleet.warm.keeper import WarmKeeper
from stoker.fleet.watchdog.probe import HostState, differences
from stoker.store.files.remedies import remedy
from stoker.system.processes import environment

Found = TypeVar("Found")
SNAPSHOT_TIMEOUT = 2.0
"""Seconds that the memory snapshot before a stop may take; after that the stop goes on without it."""


@dataclass(frozen=True, slots=True)
class ServeStatistics:
    """One serve as it is now. None: unknown or absent."""

    state: str
    pid: int | None
    port: int
    rss: int | None
    """Resident bytes of its whole process group."""
    log: str | None
    measured: MemorySize | None = None
    """The memory of its slot that it held when it was last measured, and how it was measured."""


@dataclass(frozen=True, slots=True)
class FleetContext:
    """What a fleet gets from outside. `signing_key` is called for each use: the key may be rotated."""

    paths: Paths
    clock: Clock
    log: logging.Logger
    signing_key: Callable[[], bytes]
    slot_of: Callable[[str | None], Slot | None] = lambda name: None
    """The slot of that name, as configured now; None: no slot has that name."""
    notify: Notify = ignore
    drivers: Mapping[Driver, UnitDriver] = field(default_factory=dict)
    """Drivers that replace the built-in ones."""
    probe: DeviceProbe = field(default_factory=machine)
    edges: EdgeTargets | None = None
    """Where serves behind edges answer; None: there are none."""
    cluster_of: Callable[[str], Cluster | None] = lambda name: None
    """The cluster of that name, as configured now; None: no cluster has that name."""
    table: Callable[[str], Any] = lambda name: None
    """A table of the configuration that an extension brought, as it is now; None: the file has none."""


class ServeRegistry:
    """The serves that Stoker runs, each from its launch until no process of it is left. Starts none itself.

    All methods belong to the event loop's thread.
    """

    def __init__(
        self, context: FleetContext, keys: Keys, meter: MemoryMeter, warm: WarmKeeper, conversations: ConversationKeeper
    ) -> None:
        self.serves: dict[str, ManagedServe] = {}
        """By name. Only the registry writes it."""
        self.records = StartRecords(Path(context.paths.state) / "serves", context.log)
        self.is_hurried = False
        self._context = context
        self._clock = context.clock
        self._log = context.log
        self._keys = keys
        self._meter = meter
        self._warm = warm
        self._conversations = conversations
        self._drivers: dict[Driver, UnitDriver] = dict(context.drivers)
        self._logs = LogKeeper(context.paths.log_bytes, context.log)
        self._failures: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._measuring: set[asyncio.Task[None]] = set()
        self._graceful_waits: set[asyncio.Task[Any]] = set()
        """Waits that `hurry` cancels."""

    # -- questions -------------------------------------------------------------------------------------------------

    def host_state(self, running: Running) -> HostState:
        """What the watchdog checks once a minute: devices, requirements, drift. Blocks; may be called from any
        thread.
        """
        serve = running.serve
        managed = self.serves.get(serve.name)
        if managed is None or managed.record is None:
            return HostState(missing=(), differences=())
        pids = self.members(managed)
        devices = self._meter.devices(serve, pids, str(managed.record.facts.get("devices", "")))
        changed: tuple[str, ...] | None = ()
        if serve.driver is Driver.PROCESS:
            pid = managed.record.pid
            changed = differences(
                managed.record, self._keys.fingerprint(serve), self._keys.command(pid), environment(pid), serve
            )
        return HostState(devices, tuple(start_problems.unmet_requirements(serve)), changed)

    def failure_of(self, name: str) -> str:
        return self._failures.get(name, "")

    def load_percent(self, name: str) -> int | None:
        managed = self.serves.get(name)
        if managed is None or managed.log is None or managed.phase is not ServePhase.STARTING:
            return None
        return load_progress.percent(managed.log, managed.log_start)

    def start_step(self, name: str) -> str:
        return self._steps.get(name, "")

    def _say_step(self, name: str, step: str) -> None:
        self._steps[name] = step
        if not step:
            del self._steps[name]

    def is_asleep(self, name: str) -> bool:
        managed = self.serves.get(name)
        return managed is not None and managed.phase is ServePhase.ASLEEP

    def statistics(self) -> dict[str, ServeStatistics]:
        """By name, without the serves that are stopped."""
        return {name: self._statistics(managed) for name, managed in self.serves.items()}

    # -- what happens to a serve -----------------------------------------------------------------------------------

    def take(self, managed: ManagedServe) -> None:
        """Add a serve that was launched, or found running. Raises ProcessLookupError if its process is gone, or its
        number belongs to another one.
        """
        managed.apply(ServeEvent.STARTED)
        if managed.record is not None:
            driver = self.driver(managed.record.driver)
            managed.unit = driver.attach(
                managed.record, lambda code: self._on_exit(managed, code), lambda: self._on_gone(managed)
            )
        if managed.log is not None:
            self._logs.watch(managed.log)
        self.serves[managed.serve.name] = managed

    async def prove(self, managed: ManagedServe, limit: float) -> ReadinessProof:
        """Wait until the serve is proved ready. Raises StartFailed with its last output and the next step."""
        readiness = Readiness(managed.serve, managed.target, self._clock, managed.stop_probing)
        try:
            async with asyncio.timeout(limit):
                return await readiness.prove()
        except EngineEnded:
            await self._fetch_output(managed)
            raise ended_while_starting(managed, self._clock.now()) from None
        except NotReady as failure:
            raise wrong_answer(managed, str(failure)) from None
        except TimeoutError:
            await self._fetch_output(managed)
            raise not_ready_in_time(managed, limit, readiness.last) from None

    async def _fetch_output(self, managed: ManagedServe) -> None:
        """Fetch the last output of a serve whose log Stoker does not write."""
        if managed.record is not None and managed.log is None:
            managed.engine_output = await self.driver(managed.record.driver).recent_output(managed.record)

    def _on_exit(self, managed: ManagedServe, code: int | None) -> None:
        """The main process exited. Kill the rest of its group and end the probing."""
        # Whoever puts it to sleep waits for the driver, and notices.
        was_ready = managed.phase is ServePhase.READY and not managed.is_suspended
        was_asleep = managed.phase is ServePhase.ASLEEP
        is_unexpected = managed.phase is not ServePhase.STOPPING
        managed.apply(ServeEvent.EXITED)
        managed.ended_unexpectedly = is_unexpected
        managed.stop_probing.set()
        if is_unexpected and managed.unit is not None:
            managed.unit.begin_end(0.0)
        if was_asleep:
            self.end_sleepers(self._warm.on_gone(managed.serve.name))
        if was_ready:
            self.end_sleepers(self._warm.on_stopped(managed.serve))
            failure = managed.last_output().failure
            self._failures[managed.serve.name] = failure.kind.value if failure is not None else ""
            managed.on_exit(managed.serve.name, exit_text(managed, code, self._clock.now()))

    def on_lost(self, managed: ManagedServe, readiness: Readiness) -> None:
        """An external serve stopped answering."""
        managed.watch = None  # the watch has ended
        managed.apply(ServeEvent.EXITED)
        self._on_gone(managed)
        managed.on_exit(managed.serve.name, f"stopped answering at {_place(managed)}: {readiness.last}")

    async def stop(self, managed: ManagedServe, grace: float) -> None:
        if managed.gone.is_set():
            return
        if managed.is_suspended or managed.phase is ServePhase.ASLEEP:
            grace = min(grace, managed.short_grace)
        managed.apply(ServeEvent.STOP_BEGUN)
        managed.stop_probing.set()
        if managed.unit is not None:
            pids = self.members(managed)
            before = None
            try:
                with contextlib.suppress(TimeoutError):  # a driver that hangs must not block the stop
                    async with asyncio.timeout(SNAPSHOT_TIMEOUT):
                        before = await self._unless_grace_over(self._meter.snapshot())
            finally:  # also on cancel
                await managed.unit.end(0.0 if self.is_hurried else grace)
            if before is not None:
                await self._unless_grace_over(self._meter.wait_until_free(managed.serve.name, pids, before))
            return
        watch, managed.watch = managed.watch, None
        self._on_gone(managed)
        if watch is not None:
            await watch.close()

    async def _unless_grace_over(self, work: Coroutine[Any, Any, Found]) -> Found | None:
        """The result of `work`; None if `hurry` is called before `work` is done."""
        if self.is_hurried:
            work.close()
            return None
        task = asyncio.get_running_loop().create_task(work)
        self._graceful_waits.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._graceful_waits.discard(task)
            task.cancel()  # we were cancelled; cancelling a finished task has no effect
        return None if task.cancelled() else task.result()

    def _on_gone(self, managed: ManagedServe) -> None:
        managed.apply(ServeEvent.GONE)
        if managed.record is not None:
            self.records.remove(managed.record)
        self._drop(managed)

    def _drop(self, managed: ManagedServe) -> None:
        if self.serves.get(managed.serve.name) is managed:
            del self.serves[managed.serve.name]
            self._conversations.stopped(managed.serve.name)
        if managed.log is not None:
            self._logs.forget(managed.log)
        managed.gone.set()

    def release(self, managed: ManagedServe) -> None:
        """Stop watching a serve. It goes on running, and its record stays for the next run of Stoker."""
        managed.apply(ServeEvent.RELEASED)
        if managed.unit is not None:
            managed.unit.release()
        self._drop(managed)

    def release_rest(self) -> None:
        """Stop watching what is told to end and not known to be gone. Its record stays for the next run of Stoker."""
        for managed in list(self.serves.values()):
            if managed.unit is not None:
                managed.unit.release()
                self._drop(managed)

    def hurry(self, stays: Callable[[ManagedServe], bool]) -> None:
        """Kill every serve that does not `stay`. From now on every stop is without grace and does not wait for
        memory.
        """
        self.is_hurried = True
        for task in self._graceful_waits:
            task.cancel()
        for managed in list(self.serves.values()):
            if managed.unit is not None and not stays(managed):
                managed.apply(ServeEvent.STOP_BEGUN)
                managed.stop_probing.set()
                managed.unit.begin_end(0.0)

    async def close(self) -> None:
        """Stop measuring memory and rotating logs."""
        if self._measuring:  # reading /proc takes milliseconds; do not wait for a driver that hangs
            _, late = await asyncio.wait(self._measuring, timeout=SNAPSHOT_TIMEOUT)
            for task in late:
                task.cancel()
        await self._logs.close()

    # -- smaller steps ---------------------------------------------------------------------------------------------

    def end_sleepers(self, sleepers: Iterable[str]) -> None:
        """Stop these sleeping serves: their memory is needed."""
        for name in sleepers:
            managed = self.serves.get(name)
            if managed is not None and managed.phase is ServePhase.ASLEEP and managed.unit is not None:
                self._log.info("serve %s sleeps and is stopped: its memory is needed", name)
                managed.apply(ServeEvent.STOP_BEGUN)
                managed.unit.begin_end(managed.short_grace)

    def measure_later(self, managed: ManagedServe) -> None:
        """Measure the memory of a serve in a task, while its first requests run."""
        task = asyncio.get_running_loop().create_task(self._measure(managed), name=f"measure-{managed.serve.name}")
        self._measuring.add(task)
        task.add_done_callback(self._measuring.discard)

    async def _measure(self, managed: ManagedServe) -> None:
        measured = await self._meter.measure(managed.serve, self.members(managed))
        if managed.phase is ServePhase.READY and measured.weight.bytes is not None:
            managed.measured = measured.weight
            self._context.notify(MemoryMeasured(managed.serve.name, measured.weight.bytes))

    def write_record(self, managed: ManagedServe | None, record: StartRecord) -> None:
        try:
            self.records.write(record)
        except OSError as error:
            text = f"serve '{record.name}' cannot be recorded in the state directory, so it does not run"
            advice = remedy(error, Path(self._context.paths.state))
            raise StartFailed(f"{text} ({error.strerror}): {advice}", code="state_unusable") from error
        if managed is not None:
            managed.record = record

    def mark_asleep(self, managed: ManagedServe, asleep: bool) -> None:
        if managed.record is not None:
            self.write_record(managed, msgspec.structs.replace(managed.record, asleep=asleep))

    def driver(self, kind: str) -> UnitDriver:
        """The driver of that kind. It is made, and its modules are loaded, when the first serve needs it."""
        driver = Driver(kind)
        if driver not in self._drivers:
            self._drivers[driver] = self._make_driver(driver)
        return self._drivers[driver]

    def _make_driver(self, driver: Driver) -> UnitDriver:
        if driver is Driver.COMPOSE:
            from stoker.fleet.drivers.container_driver import ContainerDriver

            return ContainerDriver(self._context.paths, self._keys, self._log, self.ports)
        if driver is Driver.SYSTEMD:
            from stoker.fleet.drivers.systemd import SystemdDriver

            return SystemdDriver(Path(self._context.paths.state), self._keys, self._log)
        if driver is not Driver.PROCESS:
            return self._extension_driver(driver)
        return LocalDriver(
            self._context.paths, self._keys, self._log, self._conversations.directory, self._meter.with_choices
        )

    def _extension_driver(self, driver: Driver) -> UnitDriver:
        """Raises StartFailed: no extension that is installed has it."""
        make = offered_driver(driver.value)
        if make is None:
            text = f"driver '{driver.value}' needs an extension that is not installed: see stoker --version -v"
            raise StartFailed(text, code="cannot_start")
        context = self._context
        made: UnitDriver = make(
            DriverContext(
                context.paths, self._keys, self._log, context.cluster_of, context.table, context.notify, self._say_step
            )
        )
        return made

    def ports(self) -> set[int]:
        return {managed.record.port for managed in self.serves.values() if managed.record is not None}

    def pids(self) -> set[int]:
        return {pid for managed in list(self.serves.values()) for pid in self.members(managed)}

    def members(self, managed: ManagedServe) -> list[int]:
        return managed.members()

    def _statistics(self, managed: ManagedServe) -> ServeStatistics:
        pid = managed.unit.pid if managed.unit is not None else None
        rss = process_group.resident_bytes(pid) if pid is not None else None
        log = str(managed.log) if managed.log else None
        return ServeStatistics(managed.phase.value, pid, managed.target.port, rss, log, managed.measured)


def _place(managed: ManagedServe) -> str:
    """Where an external serve answers, for messages."""
    is_behind_edge = managed.serve.edge is not None
    where = f" ({host_port(managed.target.host, managed.target.port)})" if is_behind_edge else ""
    return f"{managed.serve.base_url}{where}"
