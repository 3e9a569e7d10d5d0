"""The one place that wires everything together.

`run` holds the state directory's lock, opens both doors (TCP, and the control socket that needs no key), adopts what an
earlier control plane left running, and serves until a signal. Shutting down is a readable list: refuse who waits, let
streams end, cut what is left, stop the serves (or leave them), write the last decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import logging
import re
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from stoker.config.warnings import secrets_of
from stoker.domain.access import Settings
from stoker.domain.decision import Decision
from stoker.domain.errors import ConfigError, StokerError
from stoker.domain.events import (
    AliasMoved,
    Event,
    FleetBecameBusy,
    FleetBecameIdle,
    MemoryMeasured,
    MoveCause,
    OperatorActed,
    PromotionWatchEnded,
    RollbackNotSaved,
    ServeAdopted,
    ServeDisconnected,
    ServeExited,
    ServeParked,
    ServeRestarted,
    SwapEnded,
)
from stoker.domain.gate import Override
from stoker.domain.protocols import Clock
from stoker.domain.run import Finding, Kind, Outcome, Run, Subject
from stoker.domain.serve import Serve, Slot, on_devices
from stoker.domain.spending import cloud_costs
from stoker.domain.swap import SwapReport
from stoker.exchange.carrier import Carrier
from stoker.exchange.formatter import Formatter
from stoker.exchange.internal_client import InternalClient
from stoker.fleet.engines.placement import placed as vaulted
from stoker.fleet.memory.host import host_memory
from stoker.fleet.monitoring.engine_work import EngineWork
from stoker.fleet.monitoring.external_serves import ExternalServeFinder, health_check
from stoker.fleet.monitoring.watchdog_view import ConductorView, counters
from stoker.fleet.process.launch_fingerprint import fingerprint
from stoker.fleet.process.signing import KeySigner as LaunchSigner
from stoker.fleet.supervision.serve_registry import FleetContext
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.swapping.conductor import Conductor
from stoker.fleet.swapping.residency import Residency
from stoker.fleet.warm.keeper import WarmKeeper, budget
from stoker.fleet.watchdog.probe import HttpProbe
from stoker.fleet.watchdog.watchdog import WatchdogLoop
from stoker.gateway.admin import Admin
from stoker.gateway.decisions import DecisionPages
from stoker.gateway.flow import Flow
from stoker.gateway.front import Front, Pages
from stoker.gateway.models import ModelList
from stoker.gateway.ollama import OllamaEndpoints
from stoker.gateway.server import BACKLOG, Server, close, event_loop, listen, logging_to
from stoker.gateway.settings import FlowSettings, keys_of
from stoker.gateway.status import StatusReport, StatusSources
from stoker.measure.artifacts import result_file
from stoker.measure.artifacts.machine import machine
from stoker.promotion.promotions import Promotions
from stoker.quality.classifier_model import ClassifierModel
from stoker.quality.collector import EvidenceCollector
from stoker.quality.demotion import Demoter, Reports
from stoker.quality.fingerprints import FingerprintStore
from stoker.quality.judge import Judge
from stoker.quality.shadow import ShadowGrader
from stoker.request.accept.budget import budget_for
from stoker.request.accept.connection import WireProtocol
from stoker.request.accept.door import Door
from stoker.request.decide.aliases import with_aliases
from stoker.request.decide.names import Names
from stoker.request.lease.state import Phase
from stoker.request.relay.pictures import Pictures
from stoker.request.relay.pool import Pool
from stoker.request.translate.neutral.thinking import Signer
from stoker.routing.classifier import classifier
from stoker.routing.dispatch import Collaborators, Dispatcher
from stoker.routing.evidence import Evidence
from stoker.routing.prewarm import Prewarmer
from stoker.routing.router import TierRouter
from stoker.store.active_residents import ActiveResidents
from stoker.store.decisions import DecisionLog
from stoker.store.events import Events
from stoker.store.journal import SwapJournal
from stoker.store.metrics import Metrics
from stoker.store.overrides import Overrides
from stoker.store.profile import Rows, configured_rows, unconfigured_rows
from stoker.store.state import StateDir

log = logging.getLogger("stoker.app")
Announce = Callable[[str], None]
_RESULT_ID = re.compile(r"[A-Za-z0-9._-]{1,120}")
GC_THRESHOLD = 20_000
"""Objects between two looks for cycles: a request leaves about ten, so a look comes every thousand requests or so."""


class SystemClock:
    """Real time."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)


def run(
    settings: Settings,
    *,
    leave_running: bool = False,
    resume: bool = False,
    announce: Announce = print,
    reload: Callable[[], Settings] | None = None,
    force: frozenset[str] = frozenset(),
) -> int:
    """Serve in the foreground until SIGTERM or Ctrl-C. Returns 0 after an orderly end, 1 when it could not begin.

    `resume`: what ran last in each slot is started again, as after a reboot.

    A second signal ends now: streams are cut, what is to stop is killed, within 2 s in all.
    """
    with contextlib.ExitStack() as held:
        try:
            rows = configured_rows(settings.router, settings.paths.state)
            state = StateDir(Path(settings.paths.state))
            state.lock()
            held.callback(state.close)
            held.enter_context(logging_to(Path(settings.paths.logs), settings.paths.log_bytes))
            sockets = [listen(settings.front_door.host, settings.front_door.port), state.bind_socket()]
        except (StokerError, OSError) as error:
            announce(f"stoker: {error}")
            return 1
        held.callback(close, sockets)
        if state.note is not None:
            announce(state.note)
        application = Application(settings, state, announce, reload, force, leave_running, resume, rows)
        try:
            return event_loop()(application.serve(sockets))
        except KeyboardInterrupt:  # before uvicorn took the signals over
            return 130


class Application:
    """Everything, wired."""

    def __init__(
        self,
        settings: Settings,
        state: StateDir,
        announce: Announce,
        reload: Callable[[], Settings] | None,
        force: frozenset[str],
        leave_running: bool,
        resume: bool = False,
        rows: Rows | None = None,
    ) -> None:
        self.settings = settings
        self._rows = rows or {}
        self._announce = announce
        self._read = reload
        self._force = force
        self._leave_running = leave_running
        self._resume = resume
        self._state = state

    async def serve(self, sockets: list[socket.socket]) -> int:
        """Build, open, wait for the signal, close. On cancel the same, without waiting for streams."""
        self._build()
        gc.collect()
        gc.freeze()  # what lives as long as the program is not looked through again
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        grace = self.settings.front_door.shutdown_grace
        server = Server(self._uvicorn(), self.conductor, grace, self._opened, self.shadow.stop, self._leave_running)
        with server.signals_taken():
            try:
                await self._serve(server, sockets)
            finally:
                await self._close()
        self._announce("stopped; the serves keep running" if self._leave_running else "stopped")
        return 0

    async def _serve(self, server: Server, sockets: list[socket.socket]) -> None:
        # The doors are bound but not read yet: who knocks meanwhile waits, and meets what was adopted.
        recovering = {swap.slot for swap in self._journal.left()}
        await self.conductor.begin()
        if self._resume:
            self._resumed(recovering)
        loop = asyncio.get_running_loop()
        self.outside.configure(self.settings.serves)
        watching = [
            loop.create_task(self.dog.run(), name="watchdog"), loop.create_task(self.outside.run(), name="outside"),
        ]  # fmt: skip
        try:
            await server.serve(sockets)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    async def _close(self) -> None:
        self.promotions.close()
        self.foresight.begin(None)
        await self.shadow.close()
        await self.measured.close()
        await self.conductor.close(self._leave_running)
        await self.warm.close()
        self._remembering.shutdown()
        self.pool.close()
        self.flow.close()
        self.store.close()

    def _build(self) -> None:
        """The parts, and what they tell each other. Nothing runs yet."""
        settings = self.settings
        clock: Clock = SystemClock()
        self.pool = Pool()
        self.store = DecisionLog(self._state.decisions_path, settings.paths.decisions)
        self.metrics = Metrics()
        self.events = Events(clock.wall)
        self._complained: set[str] = set()
        self._doubted = ""
        self._remembering = ThreadPoolExecutor(1, "active")  # one: the last word is the last written
        self._active = ActiveResidents(Path(settings.paths.state) / "active.json")
        fleet_log = logging.getLogger("stoker.fleet")
        self._warm_bytes = budget(settings.warm)
        self.foresight = Prewarmer(self._foresee, clock.now, asyncio.get_running_loop().call_later)
        self.warm = WarmKeeper(
            self._warm_bytes, placed(settings), fleet_log, settings.warm.predict, predictions=self.foresight.predictions
        )
        context = FleetContext(settings.paths, clock, fleet_log, self._state.signing_key, self._slot, self._happened)
        supervisor = Supervisor(context, self.warm, settings.conversations)
        self.conversations = supervisor.conversations
        self.conversations.reload(settings.conversations, settings.serves)
        self._journal = SwapJournal(Path(settings.paths.state) / "swaps")
        self.conductor = Conductor(settings.slots, placed(settings), supervisor, clock, self._happened, self._journal)
        self._cool = supervisor.end_sleepers
        self.conductor.force(self._force)
        self.promotions = Promotions(
            Overrides(Path(settings.paths.state) / "overrides.json"), self.conductor, clock, self._happened,
            self._evidence,
        )  # fmt: skip
        state = Path(settings.paths.state)
        self.evidence = Evidence()
        reports = Reports(self.events.note, self.metrics.routed.demoted_one)
        demoter = Demoter(self.evidence, state, self.conductor.target, clock, reports)
        known = FingerprintStore(state, self._launch)
        self.measured = EvidenceCollector(
            self.evidence, demoter, known, self.conductor.target, self.events.note, lambda serve: self._doubt()
        )
        self.promotions.configure(settings.aliases, settings.serves)
        self._memory = host_memory().total
        client = InternalClient(self.pool, Formatter(Signer((self._state.signing_key(),)), clock.wall))
        judge = Judge(self.conductor, client, clock.now)
        self.companion = ClassifierModel(state, self.conductor, client, self.metrics.routed.classifier, clock.now)
        self.shadow = ShadowGrader(self.evidence, state, judge, self.metrics.routed, clock.wall)
        probe = HttpProbe(counters, supervisor.circumstances)
        self._is_working = EngineWork(lambda: self.conductor.running, probe.counters).is_working
        formatter = Formatter(self._thinking_signer(), clock.wall)
        self._carrier = Carrier(self.conductor, self.pool, formatter, clock, self._note, self.conversations)
        self._router: TierRouter | None = None
        dispatcher = self._route(settings, self._rows)
        self.flow = Flow(self._flow_settings(settings, dispatcher), self._carrier, clock, self._seal)
        sight = ConductorView(self.conductor, self.flow.work, supervisor.is_asleep)
        self.dog = WatchdogLoop(settings.watchdog, sight, probe, self.conductor, clock, fleet_log)
        self.outside = ExternalServeFinder(self.conductor, health_check(clock))
        sources = StatusSources(
            self.events.recent,
            self.dog.report,
            supervisor.statistics,
            self.warm.statistics,
            self.conversations.statistics,
            self.shadow.status,
            self.companion.status,
            self.promotions.status,
        )
        decisions = DecisionPages(self.store, self.shadow.grade_of)
        pages = Pages(
            Admin(self.conductor, self.flow, clock, decisions, self._reload, self.promotions),
            StatusReport(self.conductor, self.flow, self.store, self.metrics, clock, sources),
            ModelList(self.conductor),
            OllamaEndpoints(self.metrics.observe_legacy),
        )
        self.front = Front(self.flow, Door(settings.front_door), pages, self.metrics.observe_refusal)

    def _thinking_signer(self) -> Signer:
        """Signs what local models thought; what it signed before the key was rotated is still its own."""
        keys = (self._state.signing_key(), self._state.earlier_signing_key())
        return Signer(tuple(hmac.digest(key, b"thinking", "sha256") for key in keys if key is not None))

    def _uvicorn(self) -> uvicorn.Config:
        return uvicorn.Config(
            self.front,  # type: ignore[arg-type]  # WireProtocol knows what it is
            interface="asgi3",
            http=WireProtocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, round(self.settings.front_door.shutdown_grace) + 2),
        )

    def _opened(self) -> None:
        door = self.settings.front_door
        self._announce(f"listening on http://{door.host}:{door.port}")
        if not door.auth and door.host not in ("127.0.0.1", "::1", "localhost"):
            self._announce(f'warning: auth = "none" on {door.host}: whoever reaches this port may use your models')

    # -- what the parts tell each other --------------------------------------------------------------------------

    def _seal(self, decision: Decision) -> None:
        self.store.record(decision)
        self.promotions.observe(decision)
        self.metrics.observe(decision)
        if decision.routed is not None:
            self.measured.observe(decision.routed)

    def _happened(self, event: Event) -> None:
        match event:
            case FleetBecameBusy():
                self.warm.busy(True)
            case FleetBecameIdle():
                self.warm.busy(False)
            case SwapEnded(report):
                self._swapped(report)
            case ServeAdopted(name):
                self.measured.on_ready(name)
                self._announce(f"adopted {name}, which was still running")
                self.events.note("adopted", name, "it was still running")
            case ServeExited(name, detail):
                self._exited(name, detail)
            case ServeDisconnected(host_memory, port):
                self.pool.drop(host_memory, port)
            case ServeRestarted(name, reason):
                self.events.note("restarted", name, reason)
            case ServeParked(name, reason):
                self.events.note("parked", name, reason)
            case MemoryMeasured(name, size):
                self.conductor.measured(name, size)
            case AliasMoved(alias, serve, previous, cause, reason):
                self.flow.configure(replace(self.flow.settings, names=self._names(self.settings)))
                text = f"alias {alias} means it now, {previous} before{f': {reason}' if reason else ''}"
                if cause is MoveCause.RESET:
                    text = f"alias {alias} means it again, {previous} before"
                elif cause is MoveCause.ROLLED_BACK:
                    text = f"alias {alias} means it again: {previous} failed its {reason}"
                self.events.note(cause.value, serve, text)
            case RollbackNotSaved(serve, problem):
                self.events.note("rollback", serve, f"it is not on disk: {problem}")
            case PromotionWatchEnded(override, finding, rolled_back):
                self._watched(override, finding, rolled_back)
            case OperatorActed(name):
                self.dog.forget(name)

    def _swapped(self, report: SwapReport) -> None:
        name = report.serve or ",".join(report.victims)
        self.metrics.observe_swap(name, report.slot, report.outcome, report.phases, report.temperature)
        if report.outcome == "failed" and report.serve is not None:
            self.metrics.observe_load_failure(report.serve)
        seconds = sum(report.phases.get(p, 0.0) for p in ("drain", "stop", "start", "ready"))
        log.info("swap %d: %s %s after %.3f s %s", report.generation, name, report.outcome, seconds, report.phases)
        self.events.note(report.outcome, name, self._told(report, seconds))
        for victim in report.victims:
            self.measured.on_stopped(victim)
        if report.outcome == "ready" and report.serve is not None:
            self.measured.on_ready(report.serve)
            self._remember(report.slot, report.serve)
            self._complained.discard(report.serve)
        elif report.outcome == "failed" and report.serve is not None and report.serve not in self._complained:
            seat = self.conductor.scheduler.seats.get(report.serve)
            if seat is not None and seat.serve.keep_loaded:  # nobody asked for it, so nobody else is told
                self._complained.add(report.serve)
                self._announce(f"{report.serve} did not start: {report.error}")

    def _told(self, report: SwapReport, seconds: float) -> str:
        if report.outcome == "failed" and report.serve is not None:
            return report.error
        beside = f", {' and '.join(report.victims)} made room" if report.victims and report.serve else ""
        if report.serve is None:
            return f"after {seconds:.2f} s"
        how = "" if report.temperature == "unknown" else f"{report.temperature} "
        return f"{how}start, {seconds:.2f} s{beside}"

    def _remember(self, slot: str, serve: str) -> None:
        """Who is to run after a reboot. On a thread: it waits for the disk."""
        if slot.startswith("~"):
            return

        def write() -> None:
            try:
                self._active.write(slot, serve)
            except OSError as error:
                log.warning("who runs in slot %s cannot be remembered: %s", slot, error)

        self._remembering.submit(write)

    def _resumed(self, recovering: set[str]) -> None:
        """After a reboot: who ran last in each slot runs again, and nobody else; an interrupted swap goes first."""
        for slot, name in self._active.read().items():
            room = self.conductor.scheduler.rooms.get(slot)
            if room is None or slot in recovering or name not in {seat.name for seat in room.seats}:
                continue
            if all(seat.phase is Phase.STOPPED for seat in room.seats):
                self._announce(f"resuming {name} in slot {slot}")
                self.conductor.preload(name)

    def _exited(self, name: str, detail: str) -> None:
        self.measured.on_stopped(name)
        self.events.note("exited", name, detail)
        self.dog.exited(name, detail)
        self.outside.on_lost(name)

    def _names(self, settings: Settings) -> Names:
        """What may be asked for by name: serves, aliases as they stand, tiers. No cloud tier where none is allowed."""
        serves = self.promotions.serves
        router = settings.router
        if router is None:
            return Names(serves)
        clouds = {tier.serve for tier in router.tiers if tier.cloud and not router.allow_cloud}
        tiers = {tier.name: tier.serve for tier in router.tiers if tier.name != tier.serve}
        return Names(serve for serve in with_aliases(serves, tiers) if serve.name not in clouds)

    def _route(self, settings: Settings, rows: Rows) -> Dispatcher | None:
        """Routing as configured; what is known of tiers that stay is kept."""
        router, routing = settings.router, self._router
        self.metrics.routed.clouds = cloud_costs(router)
        if router is None:
            self._router = None
            self.measured.begin(None)
            self._collaborators(settings, None)
            return None
        for problem in unconfigured_rows(rows, [tier.name for tier in router.tiers], router.known):
            log.warning("%s", problem)
        self.evidence.on_measured(rows)
        if routing is None:
            fleet = Residency(self.conductor.scheduler.seats)
            routing = TierRouter(router, settings.serves, self.evidence, fleet, SystemClock.now)
            classifier()  # read now, and not with the first request
            self._router = routing
            self.measured.begin(routing)
            for name in self.conductor.running:
                self.measured.on_ready(name)
        else:
            before = set(routing.settings.serves)
            routing.configure(router, settings.serves)
            self.measured.begin(routing)
            for name in self.conductor.running:  # those that routing had nothing to do with are not looked at yet
                if name not in before and routing.serve(name) in self.settings.serves:
                    self.measured.on_ready(name)
        return Dispatcher(self._carrier, routing, self._collaborators(settings, routing), SystemClock.now)

    def _collaborators(self, settings: Settings, routing: TierRouter | None) -> Collaborators:
        """Who works beside routed requests, as configured. Each of them follows this configuration from here on."""
        grades, classifies = self.shadow.begin(routing), self.companion.begin(routing)
        self._doubt()
        self.foresight.begin(routing)
        predicts = routing is not None and settings.warm.predict and self._warm_bytes > 0
        return Collaborators(
            self.shadow if grades else None,
            self.companion if classifies else None,
            self.foresight if predicts else None,
            self._is_working,
            settings.front_door.stall_timeout,
        )

    def _doubt(self) -> None:
        """What keeps the model off that is to tell classes is told once."""
        problem = self.companion.problem
        if problem and problem != self._doubted:
            log.warning("%s", problem)
            self._announce(f"warning: {problem}")
        self._doubted = problem

    def _foresee(self) -> None:
        self._cool(self.warm.foresee())

    def _evidence(self, run: str) -> Run | None:
        """A result by its id; None: there is none, or it is none."""
        if not _RESULT_ID.fullmatch(run):
            return None
        try:
            return result_file.load(result_file.path_of(Path(self.settings.paths.state) / "results", run))
        except StokerError:
            return None

    def _watched(self, override: Override, finding: Finding, went_back: bool) -> None:
        """The end of a promotion's watch is a result like any other."""
        at = override.at
        run = Run(
            result_file.new_id(Kind.PROMOTION, override.serve, at), Kind.PROMOTION, at,
            max(0.0, SystemClock.wall() - at),
            Subject(override.serve, override.alias, ""), Outcome.FAILED if went_back else Outcome.PASSED, [finding],
            settings=result_file.raws(msgspec.structs.asdict(override)),
        )  # fmt: skip

        def write() -> None:
            run.machine = result_file.raws(machine())
            try:
                result_file.save(run, Path(self.settings.paths.state) / "results")
            except StokerError as error:
                log.warning("how the promotion of %s went cannot be kept: %s", override.alias, error.message)

        self._remembering.submit(write)

    def _launch(self, serve: Serve) -> str:
        return fingerprint(serve, LaunchSigner(self._state.signing_key))

    def _slot(self, name: str | None) -> Slot | None:
        return next((slot for slot in self.settings.slots if slot.name == name), None)

    def _note(self, serve: str, text: str) -> None:
        log.warning("serve %s: %s", serve, text)

    def _reload(self) -> dict[str, Any]:
        """Read the configuration again and change what changed. Raises ConfigError, and changes nothing then."""
        if self._read is None:
            raise ConfigError(["this Stoker runs without a configuration file: there is nothing to reload"])
        fresh = self._read()
        old = {serve.name: serve for serve in self.settings.serves}
        new = {serve.name: serve for serve in fresh.serves}
        problems = _fixed(self.settings, fresh)
        rows = configured_rows(fresh.router, fresh.paths.state)
        allowed = self._allowed()
        self.conductor.reload(fresh.slots, placed(fresh))
        self.conversations.reload(fresh.conversations, fresh.serves)
        self.promotions.configure(fresh.aliases, fresh.serves)
        if fresh.warm.memory != self.settings.warm.memory:  # what is free now says nothing of what was at the start
            self._warm_bytes = budget(fresh.warm)
        self.flow.configure(self._flow_settings(fresh, self._route(fresh, rows)))
        self.front.configure(Door(fresh.front_door))
        for name in old.keys() & new.keys():
            if _differs(old[name], new[name]):
                self.dog.forget(name)
        self.outside.configure(fresh.serves)
        self.dog.configure(fresh.watchdog)
        self._cool(self.warm.reload(self._warm_bytes, placed(fresh), fresh.warm.predict))
        routes = fresh.router != self.settings.router or rows != self._rows
        self._rows = rows
        self.settings = fresh
        return {
            "changed": sorted(name for name in old.keys() & new.keys() if _differs(old[name], new[name])),
            "added": sorted(new.keys() - old.keys()),
            "removed": sorted(old.keys() - new.keys()),
            "routing": routes,
            "lapsed": [{"tier": tier, "class": name} for tier, name in sorted(allowed - self._allowed())],
            "problems": problems,
        }

    def _flow_settings(self, settings: Settings, dispatcher: Dispatcher | None) -> FlowSettings:
        # `settings.serves` has every cloud tier, allowed or not: their keys are secrets, too.
        secrets = [secret for serve in settings.serves for secret in secrets_of(serve)]
        return FlowSettings(
            settings.front_door,
            self._names(settings),
            dispatcher,
            Pictures(settings.media),
            (*keys_of(settings.front_door, settings.serves), *secrets),
            budget_for(settings.front_door, self._memory),
        )

    def _allowed(self) -> set[tuple[str, str]]:
        return set() if self._router is None else self._router.allowed()


def placed(settings: Settings) -> list[Serve]:
    """The serves with their slot's devices in their environment, and their caches under the vault where that rules."""
    slots = {slot.name: slot for slot in settings.slots}
    paths = settings.paths
    serves = [vaulted(serve, paths.vault) for serve in settings.serves] if paths.placement else settings.serves
    return [on_devices(serve, slots[serve.slot]) if serve.slot in slots else serve for serve in serves]


def _differs(old: Serve, new: Serve) -> bool:
    return old != new


def _fixed(old: Settings, new: Settings) -> list[str]:
    """What a reload cannot change."""
    problems: list[str] = []
    if (old.front_door.host, old.front_door.port) != (new.front_door.host, new.front_door.port):
        problems.append("front_door.host and port change only with a restart")
    if old.front_door.prefixes != new.front_door.prefixes:
        problems.append("front_door.prefixes change only with a restart")
    if old.paths != new.paths:
        problems.append("[paths] change only with a restart")
    return problems
