"""Checks whether a serve can start, before a running one is stopped for it; and downloads missing weights.

Files are read in threads of their own, for READ_WITHIN seconds at most: a file system whose server is gone does not
answer, and must hold up nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeVar

from stoker.blocking import in_own_thread
from stoker.domain.access import Paths
from stoker.domain.protocols import QuickCheck
from stoker.domain.serve import Driver, Serve
from stoker.engines.placement import placement_problems
from stoker.fleet.supervision import start_problems
from stoker.fleet.supervision.memory_meter import MemoryMeter
from stoker.fleet.supervision.serve_registry import ServeRegistry
from stoker.fleet.weights.download import DownloadProgress
from stoker.fleet.weights.serve_weights import ServeWeights, missing

T = TypeVar("T")
READ_WITHIN = 10.0
"""Seconds; a disk that sleeps takes several to answer."""


class StartChecks:
    """The quick and the full check of `Fleet`. Starts and stops nothing."""

    def __init__(self, paths: Paths, registry: ServeRegistry, meter: MemoryMeter) -> None:
        self._paths = paths
        self._registry = registry
        self._meter = meter
        self._weights = ServeWeights(paths.state)
        self._progress: dict[str, DownloadProgress] = {}
        self._quick: dict[str, tuple[Serve, asyncio.Task[QuickCheck]]] = {}
        """The quick checks under way, by serve."""

    def quick_check(self, serve: Serve) -> QuickCheck | Awaitable[QuickCheck]:
        """See `Fleet.quick_check`. Takes longer if the serve has `conflicts`."""
        if serve.driver is Driver.EXTERNAL:
            return QuickCheck(start_problems.problems(serve, (), ()))
        earlier = self._quick.get(serve.name)
        if earlier is not None and earlier[0] is serve:
            return asyncio.shield(earlier[1])
        ports, pids = self._registry.ports(), self._registry.pids() if serve.conflicts else ()
        checking = asyncio.get_running_loop().create_task(self._quick_check(serve, ports, pids), name="quick-check")
        self._quick[serve.name] = serve, checking
        checking.add_done_callback(partial(self._quick_checked, serve.name))
        return asyncio.shield(checking)

    def _quick_checked(self, name: str, checking: asyncio.Task[QuickCheck]) -> None:
        if name in self._quick and self._quick[name][1] is checking:
            del self._quick[name]

    async def _quick_check(self, serve: Serve, ports: Collection[int], pids: Collection[int]) -> QuickCheck:
        def read() -> QuickCheck:
            lasting = start_problems.lasting(serve)
            if self._paths.placement:
                lasting += placement_problems(serve, self._paths.vault)
            lasting += self._weights.problems(serve)
            problems = [*lasting, *start_problems.passing(serve, ports, pids)]
            lacks_weights = serve.source is not None and bool(missing(serve))
            return QuickCheck(problems, lacks_weights, lasting, () if lasting else start_problems.marks(serve))

        try:
            return await _read(serve, read)
        except TimeoutError:
            return QuickCheck([unanswered(serve)])

    async def start_problems(self, serve: Serve) -> list[str]:
        """What prevents the start of a serve for which everything else has stopped."""
        ports = self._registry.ports()
        try:
            return await _read(serve, lambda: start_problems.problems(serve, ports, (), with_conflicts=False))
        except TimeoutError:
            return [unanswered(serve)]

    async def full_check(
        self, serve: Serve, victims: tuple[str, ...] = (), checked: QuickCheck | None = None
    ) -> list[str]:
        """See `Fleet.full_check`. Hashes weights if their digests are not known yet: that takes minutes."""
        check = checked or self.quick_check(serve)
        problems = list((check if isinstance(check, QuickCheck) else await check).problems)
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

    async def close(self) -> None:
        """Give up the quick checks under way."""
        checks = [checking for _, checking in self._quick.values()]
        for checking in checks:
            checking.cancel()
        await asyncio.gather(*checks, return_exceptions=True)

    async def download(self, serve: Serve) -> None:
        def on_progress(progress: DownloadProgress) -> None:
            self._progress[serve.name] = progress

        try:
            await self._weights.download(serve, on_progress)
        finally:
            self._progress.pop(serve.name, None)

    def download_progress(self, name: str) -> str:
        progress = self._progress.get(name)
        if progress is None:
            return "it has just begun"
        share = f"{100 * progress.done // progress.total} % of {progress.file}" if progress.total else progress.file
        remaining = f", about {progress.seconds_left:.0f} s left" if progress.seconds_left is not None else ""
        return f"{share}{remaining}"


async def _read(serve: Serve, work: Callable[[], T]) -> T:
    """Raises TimeoutError."""
    async with asyncio.timeout(READ_WITHIN):
        return await in_own_thread(work, f"the files of serve '{serve.name}'")


def unanswered(serve: Serve) -> str:
    where = f" ({serve.model})" if serve.model.startswith("/") else ""
    return (
        f"the files of serve '{serve.name}'{where} could not be read within {READ_WITHIN:g} s: their file system does "
        "not answer; mount it again, or correct `model`"
    )
