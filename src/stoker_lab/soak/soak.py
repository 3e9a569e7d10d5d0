"""Repeats a small measurement for hours, to find faults that an hour does not show. Every fault is reported.

Each cycle: the canary, then a decode check. A mismatch, a failed request or a slow cycle is repeated at once; how often
it occurs again is recorded, and the cycle is excluded from mean and range. What happens between cycles (a death of the
engine, a clock that is set, a suspended machine) is recorded with its time.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from stoker.domain.figures import counted
from stoker.domain.run import Finding, Fingerprint, Number, Outcome
from stoker_lab.canary.canary import RERUNS, Anomaly, anomaly_finding
from stoker_lab.soak.schedule import ClockWatch, CycleSchedule, overslept

CHECK_INTERVAL = 15.0
"""Seconds between two checks of engine and clocks while a cycle is waited for."""
SLOW_SHARE, MIN_CLEAN = 0.8, 3
"""With at least MIN_CLEAN clean cycles, a cycle is an anomaly if its rate is below SLOW_SHARE of their median and below
their minimum by more than their range."""


class SoakClock(Protocol):
    """`now`: seconds that go on while the machine sleeps. `wall`: Unix time, which may be set."""

    def now(self) -> float: ...

    def wall(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemSoakClock:
    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class DecodeResult(NamedTuple):
    rate: float | None
    """Output tokens per second of all its requests together; None: not known."""
    tpot: float | None
    """Seconds per token of one request, median."""
    failed: int
    why: str = ""
    """The first failure, in one word."""


class SoakCycle(msgspec.Struct):
    """`number` counts from 1; `at` is Unix time, `elapsed` since the beginning."""

    number: int
    at: float
    elapsed: float
    seconds: float = 0.0
    questions: int = 0
    rate: float | None = None
    tpot: float | None = None
    failed: int = 0
    anomalies: list[Anomaly] = []
    excluded: str = ""
    """Why it does not count for mean and range; empty: it does."""


class SoakEvent(msgspec.Struct):
    at: float
    elapsed: float
    kind: str
    """`began`, `resumed`, `engine_died`, `engine_back`, `clock_jump`, `suspended`, `missed`, `ended`."""
    text: str


class SoakRecord(msgspec.Struct):
    """All that a soak knows of itself, written down after each cycle: it goes on from there after a restart."""

    id: str
    serve: str
    began: float
    """Unix time."""
    every: float
    length: float
    concurrency: int
    tokens: int
    baseline: msgspec.Raw
    """What replies are compared with: a `canary.Baseline`."""
    reference: str = "own"
    """The id of the run it came from, or `own`."""
    same_execution: bool = True
    fingerprint: Fingerprint = Fingerprint()
    """The model's fingerprint at the beginning."""
    engine: str = ""
    """The engine's process when it was last checked."""
    started: int = 0
    """Cycles that were started or missed."""
    cycles: list[SoakCycle] = []
    events: list[SoakEvent] = []
    is_over: bool = False

    @property
    def clean(self) -> list[SoakCycle]:
        return [cycle for cycle in self.cycles if not cycle.excluded]

    @property
    def rates(self) -> list[float]:
        return [cycle.rate for cycle in self.clean if cycle.rate is not None]

    @property
    def anomalies(self) -> list[Anomaly]:
        return [anomaly for cycle in self.cycles for anomaly in cycle.anomalies]

    @property
    def deaths(self) -> list[SoakEvent]:
        return [event for event in self.events if event.kind == "engine_died"]


class SoakWork(Protocol):
    """What a cycle does to the model, and how its engine is recognised."""

    async def canary(self) -> tuple[int, list[Anomaly]]:
        """How many questions were asked; what mismatched, repeats done."""

    async def decode(self) -> DecodeResult: ...

    async def engine(self) -> str | None:
        """`process 812`; empty: none runs; None: it cannot be seen now."""


class Soak:
    """Runs a record to its end. `save` is called with it after each cycle and event: it writes the state file."""

    def __init__(
        self,
        record: SoakRecord,
        work: SoakWork,
        clock: SoakClock,
        save: Callable[[SoakRecord], None],
        report: Callable[[str], None],
    ) -> None:
        self.record = record
        self._work = work
        self._clock = clock
        self._save = save
        self._report = report
        self._schedule = CycleSchedule(record.every, record.length)
        # A soak that goes on knows its beginning by the wall clock only.
        self._zero = clock.now() - max(0.0, clock.wall() - record.began)
        self._clock_watch = ClockWatch(clock.now(), clock.wall())

    @property
    def elapsed(self) -> float:
        return self._clock.now() - self._zero

    async def run(self) -> None:
        """Until the deadline. On cancel the record is as of the last cycle that ended."""
        resumed = bool(self.record.events)
        left = self._schedule.cycles - self.record.started
        cycles = counted(left, "cycle")
        self._event("resumed" if resumed else "began", f"{cycles} to go" if resumed else cycles)
        while True:
            following = self._schedule.next(self.elapsed, self.record.started)
            for cycle in following.missed:
                self._event("missed", f"cycle {cycle + 1} did not start on time: the previous work took too long")
            self.record.started += len(following.missed)
            await self._wait(following.wait)
            if following.cycle is None:
                break
            if self._schedule.next(self.elapsed, following.cycle).cycle != following.cycle:
                continue  # the machine slept past it: it is missed
            self.record.started = following.cycle + 1
            await self._cycle(following.cycle)
        self.record.is_over = True
        self._event("ended", f"{len(self.record.clean)} of {counted(self._schedule.cycles, 'cycle')} clean")

    async def _wait(self, seconds: float) -> None:
        """In slices: what happens meanwhile is seen soon, and a machine that slept wakes up in time."""
        until = self.elapsed + seconds
        await self._note_changes()
        while (left := until - self.elapsed) > 0:
            asked, before = min(left, CHECK_INTERVAL), self.elapsed
            await self._clock.sleep(asked)
            away = overslept(asked, self.elapsed - before)
            if away is not None:
                self._event("suspended", f"nothing ran for {away:.0f} s: the machine was suspended or overloaded")
            await self._note_changes()

    async def _note_changes(self) -> bool:
        """Note what happened to engine and clock; whether the engine is another one than before."""
        jump = self._clock_watch.jumped(self._clock.now(), self._clock.wall())
        if jump is not None:
            self._event("clock_jump", f"the wall clock was set by {jump:+.0f} s; the schedule is unchanged")
        before, now = self.record.engine, await self._work.engine()
        if now is None:
            return False
        self.record.engine = now
        if before and now != before:
            self._event("engine_died", f"{before} is gone" + (f"; {now} runs in its place" if now else ""))
            return True
        if now and not before and self.record.deaths:
            self._event("engine_back", f"{now} runs")
        return False

    async def _cycle(self, number: int) -> None:
        cycle = SoakCycle(number + 1, self._clock.wall(), self.elapsed)
        cycle.questions, cycle.anomalies = await self._work.canary()
        decoded = await self._work.decode()
        cycle.rate, cycle.tpot, cycle.failed = decoded.rate, decoded.tpot, decoded.failed
        if (why := self._problem(decoded)) is not None:
            anomaly = Anomaly("decode", why, at=self._clock.wall())
            for _ in range(RERUNS):
                anomaly.reruns.append(self._problem(await self._work.decode()) is not None)
            cycle.anomalies.append(anomaly)
        has_died = await self._note_changes()
        cycle.seconds = self.elapsed - cycle.elapsed
        names = ", ".join(anomaly.name for anomaly in cycle.anomalies)
        reasons = [*(["the engine died"] if has_died else []), *([f"anomaly: {names}"] if names else [])]
        cycle.excluded = "; ".join(reasons)
        self.record.cycles.append(cycle)
        self._save(self.record)
        self._report(timeline_entry(cycle))

    def _problem(self, decoded: DecodeResult) -> str | None:
        if decoded.failed:
            return f"{decoded.failed} of {counted(self.record.concurrency, 'request')} failed ({decoded.why})"
        clean = self.record.rates
        if decoded.rate is None or len(clean) < MIN_CLEAN:
            return None
        usual, apart = statistics.median(clean), max(clean) - min(clean)
        if decoded.rate < min(SLOW_SHARE * usual, min(clean) - apart):
            return f"{decoded.rate:.1f} tokens/s, clean cycles had {usual:.1f} ({min(clean):.1f} to {max(clean):.1f})"
        return None

    def _event(self, kind: str, text: str) -> None:
        event = SoakEvent(self._clock.wall(), self.elapsed, kind, text)
        self.record.events.append(event)
        self._save(self.record)
        self._report(timeline_entry(event))


def timeline_entry(one: SoakCycle | SoakEvent) -> str:
    """One line of the time line."""
    whole = round(one.elapsed)
    at = f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    if isinstance(one, SoakEvent):
        return f"{at:>9}  {one.kind.replace('_', ' ')}: {one.text}"
    passed = one.questions - len({anomaly.name for anomaly in one.anomalies} - {"decode"})
    rate = "no rate" if one.rate is None else f"{one.rate:.1f} tokens/s"
    text = f"{at:>9}  cycle {one.number}: {passed} of {one.questions} as before, {rate}, {one.seconds:.1f} s"
    if one.excluded:
        text += f" -- excluded ({one.excluded})"
    return "\n".join([text, *(f"{'':>11}anomaly: {anomaly.name}: {anomaly.summary}" for anomaly in one.anomalies)])


def timeline(record: SoakRecord) -> list[str]:
    """The whole report."""
    happened: list[SoakCycle | SoakEvent] = [*record.cycles, *record.events]
    lines = [timeline_entry(one) for one in sorted(happened, key=lambda one: one.elapsed)]
    return [*lines, "", *summary(record)]


def summary(record: SoakRecord) -> list[str]:
    """Mean and range of the clean cycles; who is left out, and why."""
    rates = record.rates
    found = [f"clean cycles: {len(record.clean)} of {len(record.cycles)}"]
    if rates:
        found.append(f"decode: {statistics.fmean(rates):.1f} tokens/s ({min(rates):.1f} to {max(rates):.1f})")
    found += [f"excluded: cycle {cycle.number} ({cycle.excluded})" for cycle in record.cycles if cycle.excluded]
    missed = sum(event.kind == "missed" for event in record.events)
    if missed:
        found.append(f"missed: {counted(missed, 'cycle')} never started")
    anomalies, deaths = record.anomalies, record.deaths
    found.append(f"anomalies: {len(anomalies)}, of which {sum(one.is_persistent for one in anomalies)} persist")
    found.append(f"deaths of the engine: {len(deaths)}")
    return found


# -- as an artifact ------------------------------------------------------------------------------------------------


def outcome(record: SoakRecord) -> Outcome:
    """1. interrupted  2. a persistent anomaly, a death of the engine, or no clean cycle -> failed  3. else passed."""
    if not record.is_over:
        return Outcome.INTERRUPTED  # 1
    is_bad = any(one.is_persistent for one in record.anomalies) or record.deaths or not record.clean
    return Outcome.FAILED if is_bad else Outcome.PASSED  # 2, 3


def findings(record: SoakRecord) -> list[Finding]:
    """Each anomaly and each unwanted event."""
    found = []
    for cycle in record.cycles:
        for anomaly in cycle.anomalies:
            found.append(anomaly_finding(anomaly, f"cycle-{cycle.number}.{anomaly.name}"))
    for event in record.events:
        if event.kind == "engine_died":
            fix = f"the end of the engine's log: stoker serves logs {record.serve}"
            cause = "a crash, or the machine ran out of memory"
            found.append(Finding("engine_died", Outcome.FAILED, _when(event), cause, fix))
        elif event.kind in ("clock_jump", "suspended", "missed"):
            found.append(Finding(event.kind, Outcome.UNDECIDED, _when(event)))
    return found


def _when(event: SoakEvent) -> str:
    return f"after {event.elapsed:.0f} s: {event.text}"


def numbers(record: SoakRecord) -> dict[str, Number]:
    """For conditions of a gate; of clean cycles, where cycles are meant."""
    rates = record.rates
    return {
        "cycles": len(record.cycles),
        "clean": len(record.clean),
        "excluded": len(record.cycles) - len(record.clean),
        "missed": sum(event.kind == "missed" for event in record.events),
        "anomalies": len(record.anomalies),
        "anomalies_staying": sum(anomaly.is_persistent for anomaly in record.anomalies),
        "engine_deaths": len(record.deaths),
        "output_rate": round(statistics.fmean(rates), 3) if rates else None,
        "output_rate_low": round(min(rates), 3) if rates else None,
        "output_rate_high": round(max(rates), 3) if rates else None,
    }
