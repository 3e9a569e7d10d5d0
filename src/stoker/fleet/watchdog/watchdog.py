"""How often a serve may be started again. Pure.

Counted are restarts of a sick serve and unexpected ends. Failed starts are not: the scheduler has its own back-off for
them (`request/lease/timing.py`).

The loop that checks that each ready serve still works.

Each ready serve is checked every `interval` seconds, staggered, never twice at once. A check is one GET /v1/models (of
the probe path instead, with identity `none`); one GET /metrics more while requests are in flight; and once a minute its
host state (devices, dependencies, drift). An idle serve costs a quarter of a millisecond per interval, and no token
of the engine.

Reading order: `run`, `_check`, `_conclude`, `_act`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stoker.domain.access import Watchdog
from stoker.domain.protocols import Clock, Running
from stoker.domain.serve import Driver, ServeIdentity
from stoker.engines.signals import Signals
from stoker.fleet.watchdog import assertions
from stoker.fleet.watchdog.assertions import AssertionResult, HealthAssessment, Observation, Remedy, ServeHealth
from stoker.fleet.watchdog.probe import (
    NO_COUNTERS,
    HostState,
    Listing,
    WorkProgress,
    WorkSample,
    advance,
    question,
    stall_limit,
    without_progress,
)

BACKOFF_BASE = 10.0
BACKOFF_CAP = 120.0


@dataclass(frozen=True, slots=True)
class History:
    """The clock's times of what was counted, oldest first."""

    times: tuple[float, ...] = ()

    def within(self, window: float, now: float) -> History:
        """Without what is longer ago than `window` seconds."""
        return History(tuple(at for at in self.times if at > now - window))

    def counted(self, now: float) -> History:
        return History((*self.times, now))


@dataclass(frozen=True, slots=True)
class Restart:
    """Now. `number` of them were made within the window, this one included."""

    number: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Not before the clock's time `until`."""

    until: float


@dataclass(frozen=True, slots=True)
class Park:
    """The budget is used up: an operator has to act. `reason` is a sentence."""

    reason: str


def decide(history: History, limits: Watchdog, now: float) -> Restart | Wait | Park:
    """May a sick serve be restarted now?

    1 used up: park  2 the first within the window: at once  3 too soon after the last: wait  4 restart
    """
    recent = history.within(limits.window, now).times
    if len(recent) >= limits.restarts:  # 1
        return Park(_used_up(len(recent), limits))
    if not recent:  # 2
        return Restart(1)
    until = recent[-1] + backoff(len(recent))
    if now < until:  # 3
        return Wait(until)
    return Restart(len(recent) + 1)  # 4


def decide_after_exit(history: History, limits: Watchdog, now: float) -> tuple[History, Park | None]:
    """The serve ended by itself; the scheduler starts it again. `Park` if that was once too often."""
    counted = history.within(limits.window, now).counted(now)
    if len(counted.times) <= limits.restarts:
        return counted, None
    return counted, Park(_used_up(len(counted.times) - 1, limits))


def backoff(restarts: int) -> float:
    """Seconds from the last of so many restarts within the window to the next."""
    return min(BACKOFF_BASE * 2.0 ** min(restarts - 1, 16), BACKOFF_CAP)


def _used_up(count: int, limits: Watchdog) -> str:
    times = "once" if count == 1 else f"{count} times"
    return f"it was restarted {times} within {limits.window:g} s, the limit of [watchdog] restarts"


HOST_STATE_EVERY = 60.0
"""Seconds between two checks of what hardly ever changes."""
STALE_AFTER = 3
"""Periods (and a moment) after which a result is out of date."""
_MOMENT = 15.0
_GOLDEN = 0.618
"""Multiples of it, modulo 1, spread any number of serves evenly over the interval."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The result of the last check, and when (Unix time)."""

    at: float
    assessment: HealthAssessment
    findings: tuple[AssertionResult, ...]


class ServesView(Protocol):
    """Stoker's own state. Answers at once."""

    def running(self) -> Mapping[str, Running]:
        """The serves that are ready, asleep ones included. A new start is a new Running."""

    def in_flight(self, name: str) -> int:
        """Requests that wait for the serve; those whose client does not read are not among them."""

    def relayed(self, name: str) -> int | None:
        """Bytes received from the serve so far; None: not counted."""

    def is_asleep(self, name: str) -> bool:
        """Put to sleep by us."""


class ServeProbe(Protocol):
    """The serve itself. Each call is bounded in time; on cancel nothing stays open."""

    async def models(self, running: Running) -> Listing: ...

    async def counters(self, running: Running) -> Signals: ...

    async def host_state(self, running: Running) -> HostState: ...


class WatchdogActions(Protocol):
    """The watchdog's actions. They return at once, and take effect later."""

    def restart(self, name: str, reason: str) -> bool:
        """Stop it, without a drain longer than usual, and start it again. False: it is on its way out already."""

    def park(self, name: str, reason: str) -> None:
        """Stop it; requests for it are refused with `reason` until an operator starts it."""

    def report(self, name: str, reason: str) -> None:
        """Say that it works, but not as configured."""


@dataclass(slots=True, eq=False)
class _Watched:
    running: Running
    due: float
    misses: int = 0
    progress: WorkProgress | None = None
    host_state: HostState = field(default_factory=HostState)
    host_state_due: float = 0.0
    proof: HealthReport | None = None
    verified_at: float | None = None
    has_acted: bool = False
    """A restart or a park was requested already."""
    is_being_checked: bool = False


class WatchdogLoop:
    """See the module's docstring. All of it belongs to the loop's thread."""

    def __init__(
        self,
        settings: Watchdog,
        serves: ServesView,
        probe: ServeProbe,
        actions: WatchdogActions,
        clock: Clock,
        log: logging.Logger,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._serves = serves
        self._probe = probe
        self._actions = actions
        self._clock = clock
        self._log = log
        self._pause = pause
        self._watched: dict[str, _Watched] = {}
        self._histories: dict[str, History] = {}
        self._parked: dict[str, str] = {}
        self._reported: dict[str, tuple[assertions.Assertion, ...]] = {}
        """What was reported of a serve and has not been found to hold since, through ends and starts."""
        self._watched_count = 0

    def configure(self, settings: Watchdog) -> None:
        """The next check uses these settings."""
        self._settings = settings

    async def run(self) -> None:
        """Runs until it is cancelled, and cancels its checks then."""
        async with asyncio.TaskGroup() as checks:
            while True:
                for name in self._due():
                    self._watched[name].is_being_checked = True
                    checks.create_task(self._check(name, self._watched[name]), name=f"watchdog-{name}")
                await self._pause(self._wait())

    # -- what others tell ------------------------------------------------------------------------------------------

    def exited(self, name: str, detail: str) -> None:
        """A serve ended by itself. The scheduler starts it again when it is wanted; here it only counts."""
        now = self._clock.now()
        self._histories[name], park = decide_after_exit(self._histories.get(name, History()), self._settings, now)
        if park is not None:
            self._park(name, f"serve '{name}' exited again ({detail}): {park.reason}")

    def forget(self, name: str) -> None:
        """An operator started it, or its configuration changed: forget its history; it is no longer parked."""
        self._histories.pop(name, None)
        self._parked.pop(name, None)
        self._reported.pop(name, None)

    # -- what others ask -------------------------------------------------------------------------------------------

    def report(self, name: str) -> dict[str, Any]:
        """For /status. Times are Unix; None: not known, or never. What was found too long ago is left out."""
        watched = self._watched.get(name)
        proof = watched.proof if watched is not None else None
        if proof is not None and self._clock.wall() - proof.at > STALE_AFTER * self._period + _MOMENT:
            proof = None
        assessment = proof.assessment if proof is not None else HealthAssessment(ServeHealth.UNKNOWN)
        recent = self._histories.get(name, History()).within(self._settings.window, self._clock.now())
        return {
            "health": assessment.health.value,
            "verified_at": watched.verified_at if watched is not None else None,
            "looked_at": proof.at if proof is not None else None,
            "act": assessment.remedy.value if assessment.remedy is not None else None,
            "restarts": len(recent.times),
            "parked": self._parked.get(name),
            "findings": [
                {"assertion": finding.assertion.value, "ok": finding.ok, "detail": finding.detail}
                for finding in (proof.findings if proof is not None else ())
            ],
        }

    # -- the loop --------------------------------------------------------------------------------------------------

    @property
    def _period(self) -> float:
        """Seconds between two checks of a serve. With interval 0 nothing is asked, only progress is watched."""
        return self._settings.interval or self._settings.stall / 4

    def _due(self) -> list[str]:
        """The serves to check now. Notices starts and ends."""
        running = self._serves.running()
        for name in [name for name, watched in self._watched.items() if running.get(name) is not watched.running]:
            del self._watched[name]  # a check in progress notices by itself
        now = self._clock.now()
        for name, start in running.items():
            if name not in self._watched:
                self._watched_count += 1
                self._watched[name] = _Watched(start, now + self._period * (self._watched_count * _GOLDEN % 1))
        return [name for name, watched in self._watched.items() if watched.due <= now and not watched.is_being_checked]

    def _wait(self) -> float:
        """Seconds until the next check is due; at most a quarter of a period, so that new serves are noticed soon."""
        now = self._clock.now()
        soon = [watched.due - now for watched in self._watched.values() if not watched.is_being_checked]
        return max(0.0, min([self._period / 4, *soon]))

    async def _check(self, name: str, watched: _Watched) -> None:
        """One check. The result is dropped if the serve was stopped or restarted in the meantime."""
        try:
            observation = await self._observe(name, watched)
            if self._watched.get(name) is watched and self._serves.running().get(name) is watched.running:
                self._conclude(name, watched, observation)
        except Exception:  # the others are still to be watched
            self._log.exception("the watchdog of serve %s failed inside Stoker", name)
        finally:
            watched.is_being_checked = False
            watched.due = self._clock.now() + self._period

    async def _observe(self, name: str, watched: _Watched) -> Observation:
        running = watched.running
        is_asking = self._settings.interval > 0
        listing = await self._probe.models(running) if is_asking else None
        is_busy = self._serves.in_flight(name) > 0
        counters = await self._probe.counters(running) if is_asking and is_busy else NO_COUNTERS
        if is_asking and self._clock.now() >= watched.host_state_due:
            watched.host_state = await self._probe.host_state(running)
            watched.host_state_due = self._clock.now() + HOST_STATE_EVERY
        now = self._clock.now()
        work = WorkSample(self._serves.in_flight(name), self._serves.relayed(name), counters)
        watched.progress = progress = advance(watched.progress, work, now)
        if listing is not None:
            watched.misses = watched.misses + 1 if listing.ids is None else 0
        host = watched.host_state
        return Observation(
            wanted_id=running.target.served_name if running.serve.identity is ServeIdentity.MODELS else None,
            question=question(running.serve),
            misses=watched.misses if listing is not None else None,
            miss=listing.miss if listing is not None else "",
            is_moving=progress.moved,
            listed=listing.ids if listing is not None else None,
            wanted_context=running.serve.context,
            advertised_context=listing.context if listing is not None else None,
            devices=host.devices,
            missing=host.missing,
            differences=host.differences,
            in_flight=work.in_flight,
            without_progress=without_progress(progress, now),
            stall_limit=stall_limit(self._settings.stall, counters, running.serve.makes_media),
            makes_media=running.serve.makes_media,
            running=counters.running,
            queued=counters.queued,
            asleep=self._serves.is_asleep(name),
        )

    def _conclude(self, name: str, watched: _Watched, observation: Observation) -> None:
        findings = assertions.judge(observation)
        assessment = assertions.assess(findings, watched.running.serve.driver is not Driver.EXTERNAL)
        before = watched.proof.assessment if watched.proof is not None else None
        watched.proof = HealthReport(self._clock.wall(), assessment, findings)
        if assessment.health is ServeHealth.VERIFIED:
            watched.verified_at = watched.proof.at
        if assessment.remedy is not None:
            self._act(name, watched, assessment, is_news=before is None or before.failed != assessment.failed)
        elif before is not None and before.health is ServeHealth.SICK:
            self._log.info("serve %s is not sick any more", name)
        reported = self._reported.get(name, ())
        if not observation.asleep and all(one.ok for one in findings if one.assertion in reported):
            self._reported.pop(name, None)

    def _act(self, name: str, watched: _Watched, assessment: HealthAssessment, is_news: bool) -> None:
        """1 asked for already  2 nothing that a restart cures: say so  3 restart  4 too soon: say so  5 park"""
        if watched.has_acted:  # 1
            return
        if assessment.remedy is Remedy.REPORT:  # 2
            if self._reported.get(name) != assessment.failed:
                self._reported[name] = assessment.failed
                self._log.warning("serve %s is sick, but goes on running: %s", name, assessment.reason)
                self._actions.report(name, assessment.reason)
            return
        now = self._clock.now()
        history = self._histories.get(name, History()).within(self._settings.window, now)
        match decide(history, self._settings, now):
            case Restart(number):  # 3
                if not self._actions.restart(name, assessment.reason):
                    return  # it is stopping already; if it stays, the next check asks again
                watched.has_acted = True
                self._histories[name] = history.counted(now)
                self._log.warning("serve %s is sick and is restarted (no. %d): %s", name, number, assessment.reason)
            case Wait(until):  # 4
                if is_news:
                    text = "serve %s is sick, and not restarted before %.0f s have passed: %s"
                    self._log.warning(text, name, until - now, assessment.reason)
            case Park(reason):  # 5
                watched.has_acted = True
                self._park(name, f"serve '{name}' is sick again ({assessment.reason}): {reason}")

    def _park(self, name: str, text: str) -> None:
        self._parked[name] = f"{text}; look into its log (`stoker serves logs {name}`), then `stoker serves up {name}`"
        self._log.error("parked: %s", self._parked[name])
        self._actions.park(name, self._parked[name])
