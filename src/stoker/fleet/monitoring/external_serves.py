"""Finds external serves that run before anybody asks for them, so that they are shown, and known, as running.

A serve is looked for from the start, from the reload that brought it, and from its loss on, until it is found. Once it
is found it is as if it had been asked for. A cloud is never looked for: it counts every request. One that an operator
took down, or that was unloaded for being idle, stays down until it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from stoker.domain.errors import StartFailed
from stoker.domain.protocols import Clock, EdgeTargets
from stoker.domain.serve import Driver, Serve
from stoker.engines.readiness import Readiness
from stoker.fleet.drivers.external import locate
from stoker.fleet.swapping.conductor import Conductor

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
