"""Checks whether a serve can start, before a running one is stopped for it; and fetches missing weights."""

from __future__ import annotations

from stoker.domain.access import Paths
from stoker.domain.serve import Driver, Serve
from stoker.fleet.engines.placement import placement_problems
from stoker.fleet.rehydrate.fetch import FetchProgress
from stoker.fleet.rehydrate.rehydrator import Rehydrator, missing
from stoker.fleet.supervision import start_problems
from stoker.fleet.supervision.memory_meter import MemoryMeter
from stoker.fleet.supervision.serve_registry import ServeRegistry


class StartChecks:
    """The quick and the full check of `Fleet`. Starts and stops nothing."""

    def __init__(self, paths: Paths, registry: ServeRegistry, meter: MemoryMeter) -> None:
        self._paths = paths
        self._registry = registry
        self._meter = meter
        self._weights = Rehydrator(paths.state)
        self._progress: dict[str, FetchProgress] = {}

    def quick_check(self, serve: Serve) -> list[str]:
        """See `Fleet.quick_check`. Takes milliseconds; longer if the serve has `conflicts`."""
        found = start_problems.problems(serve, self._registry.ports(), self._registry.pids() if serve.conflicts else ())
        if self._paths.placement:
            found += placement_problems(serve, self._paths.vault)
        return [*found, *self._weights.problems(serve)]

    async def full_check(self, serve: Serve, victims: tuple[str, ...] = ()) -> list[str]:
        """See `Fleet.full_check`. Hashes weights if their digests are not known yet: that takes minutes."""
        problems = self.quick_check(serve)
        if problems or serve.driver is Driver.EXTERNAL:
            return problems
        victim_pids = [
            self._registry.members(self._registry.serves[name]) for name in victims if name in self._registry.serves
        ]
        return [
            *await self._weights.verify(serve),
            *await self._registry.driver(serve.driver).start_problems(serve),
            *await self._meter.memory_problems(serve, [pid for pids in victim_pids for pid in pids]),
        ]

    def lacks_weights(self, serve: Serve) -> bool:
        return serve.source is not None and bool(missing(serve))

    async def fetch(self, serve: Serve) -> None:
        def on_progress(progress: FetchProgress) -> None:
            self._progress[serve.name] = progress

        try:
            await self._weights.rehydrate(serve, on_progress)
        finally:
            self._progress.pop(serve.name, None)

    def fetch_progress(self, name: str) -> str:
        progress = self._progress.get(name)
        if progress is None:
            return "it has just begun"
        share = f"{100 * progress.done // progress.total} % of {progress.file}" if progress.total else progress.file
        remaining = f", about {progress.seconds_left:.0f} s left" if progress.seconds_left is not None else ""
        return f"{share}{remaining}"
