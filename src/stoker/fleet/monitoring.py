"""Watches running serves, and acts for the watchdog.

ConductorView        what the watchdog sees of the fleet: running serves, requests in flight
EngineWork           whether an engine is working, by its own counters
ExternalServeFinder  finds external serves that already run, before anybody asks for them
WorkerMoves          lets serves behind an edge follow its worker to another address
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from stoker.domain.errors import StartFailed
from stoker.domain.events import Notify, ServeMoved
from stoker.domain.host_port import host_port
from stoker.domain.kinds import EDGE_SCHEME
from stoker.domain.lease import Target
from stoker.domain.protocols import Clock, EdgeTargets, Running
from stoker.domain.serve import Driver, Serve
from stoker.engines.readiness import Readiness
from stoker.engines.signals import Signals
from stoker.fleet.drivers.external import locate
from stoker.fleet.swapping.conductor import Conductor
from stoker.fleet.watchdog.probe import NO_COUNTERS, WorkProgress, WorkSample, advance


class ConductorView:
    """Implements `watchdog.ServesView`. `work(name)`: requests that wait for a serve, and bytes that came from it."""

    def __init__(
        self, conductor: Conductor, work: Callable[[str], tuple[int, int]], is_asleep: Callable[[str], bool]
    ) -> None:
        self._conductor = conductor
        self._work = work
        self.is_asleep = is_asleep

    def running(self) -> Mapping[str, Running]:
        return self._conductor.running

    def in_flight(self, name: str) -> int:
        return self._work(name)[0]

    def relayed(self, name: str) -> int | None:
        return self._work(name)[1]


LOOKS_APART = 1.0
"""Seconds between two readings of an engine's counters."""
LOOKS_TAKE = 3.0
"""Seconds that both readings may take beside that; an engine that has not answered by then counts as idle."""


class EngineWork:
    """Whether an engine works, by what it counts itself: decode steps, KV cache, tokens read and written. It moves
    while a long prompt is read. Engines that count nothing, and clouds, are taken not to work.
    """

    def __init__(
        self,
        running: Callable[[], Mapping[str, Running]],
        counters: Callable[[Running], Awaitable[Signals]],
        apart: float = LOOKS_APART,
        take: float = LOOKS_TAKE,
    ) -> None:
        """`apart`, `take`: see LOOKS_APART and LOOKS_TAKE."""
        self._running = running
        self._counters = counters
        self._apart = apart
        self._take = take

    async def is_working(self, serve: str) -> bool:
        """Takes at most `apart` and `take` seconds. Raises nothing but CancelledError."""
        running = self._running().get(serve)
        if running is None or running.serve.translation.cloud:
            return False
        try:
            async with asyncio.timeout(self._apart + self._take):
                first = await self._counters(running)
                if first == NO_COUNTERS:
                    return False
                await asyncio.sleep(self._apart)
                second = await self._counters(running)
        except TimeoutError:
            return False
        return advance(WorkProgress(WorkSample(1, None, first), 0.0), WorkSample(1, None, second), LOOKS_APART).moved


EVERY = 5.0
"""Seconds between two checks of a serve that was not found."""
HealthCheck = Callable[[Serve], Awaitable[bool]]


def health_check(clock: Clock, edges: EdgeTargets | None = None) -> HealthCheck:
    async def check(serve: Serve) -> bool:
        try:
            return await Readiness(serve, await locate(serve, edges), clock, asyncio.Event()).is_healthy()
        except StartFailed:
            return False

    return check


class ExternalServeFinder:
    """Owns nothing but `run`, which its caller cancels."""

    def __init__(self, conductor: Conductor, is_there: HealthCheck) -> None:
        self._conductor = conductor
        self._is_there = is_there
        self._wanted: set[str] = set()
        self._known: set[str] = set()
        self._woken = asyncio.Event()

    def configure(self, serves: Iterable[Serve]) -> None:
        """Those that are new are looked for."""
        names = {serve.name for serve in serves if _is_near(serve)}
        self._wanted = (self._wanted & names) | (names - self._known)
        self._known = names
        self._woken.set()

    def on_lost(self, name: str) -> None:
        """It stopped answering."""
        if name in self._known:
            self._wanted.add(name)
            self._woken.set()

    async def run(self) -> None:
        """For ever; costs nothing while nothing is looked for."""
        while True:
            await asyncio.gather(*[self._preload_if_up(name) for name in sorted(self._wanted)])
            self._woken.clear()
            if self._wanted:
                await asyncio.sleep(EVERY)
            else:
                await self._woken.wait()

    async def _preload_if_up(self, name: str) -> None:
        residency = self._conductor.residency
        serve = residency.serve(name)
        if serve is None or residency.is_loaded(name):
            self._wanted.discard(name)
        elif residency.can_preload(name) and await self._is_there(serve) and self._is_still_wanted(name):
            self._wanted.discard(name)
            self._conductor.preload(name)

    def _is_still_wanted(self, name: str) -> bool:
        return name in self._wanted and self._conductor.residency.serve(name) is not None


def _is_near(serve: Serve) -> bool:
    return serve.driver is Driver.EXTERNAL and not serve.translation.cloud and not serve.needs_force


MoveServe = Callable[[str, Target], Awaitable[Running | None]]


class WorkerMoves:
    """`move_serve` proves a running serve at its new address; None: it stays where it is."""

    def __init__(self, conductor: Conductor, move_serve: MoveServe, notify: Notify) -> None:
        self._conductor = conductor
        self._move_serve = move_serve
        self._notify = notify

    async def on_proved(self, edge: str, target: Target) -> None:
        """The worker of `edge` answers at `target`. New requests go there; those under way end where they are."""
        for name, running in list(self._conductor.running.items()):
            old = running.target
            if running.serve.base_url != EDGE_SCHEME + edge or (old.host, old.port) == (target.host, target.port):
                continue
            moved = await self._move_serve(name, target)
            if moved is not None and self._conductor.running.get(name) is running:
                self._conductor.move(moved)
                self._notify(ServeMoved(name, host_port(old.host, old.port), host_port(target.host, target.port)))
