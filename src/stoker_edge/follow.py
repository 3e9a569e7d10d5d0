"""Keeps the address of each edge's worker for serves with `base_url = "edge:NAME"`.

An address counts once its worker has proved itself there. If a later refresh finds nothing, the last proved one stays.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker.domain.protocols import Clock
from stoker_edge.discover import discover
from stoker_edge.edge import Edge, WorkerAddress
from stoker_edge.probe import prove, worker_target
from stoker_edge.problem import EdgeProblem

EVERY = 5.0
"""Seconds between two refreshes of all edges that serves use."""
AT_ONCE = 0.5
"""Seconds between two refreshes at least, however often `wake` is called."""
OnProved = Callable[[str, Target], Awaitable[None]]


class _Followed:
    """One edge: its last proved address, and what was wrong at the last refresh."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.address: WorkerAddress | None = None
        self.proved_at: float | None = None
        self.problem = ""
        self.lock = asyncio.Lock()

    async def refresh(self, clock: Clock) -> None:
        try:
            address = await prove(self.edge, await discover(self.edge))
        except EdgeProblem as problem:
            self.problem = problem.message
            return
        self.address, self.proved_at, self.problem = address, clock.wall(), ""

    def target(self) -> Target | None:
        return None if self.address is None else worker_target(self.edge, self.address)


class EdgeFollower:
    """Owns nothing but `run`, which its caller cancels. All methods belong to the event loop's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._followed: dict[str, _Followed] = {}
        self._woken = asyncio.Event()

    def configure(self, edges: Iterable[Edge], used: Iterable[str]) -> None:
        """Follow those that serves use. An edge that has not changed keeps its address."""
        names = frozenset(used)
        before = self._followed
        self._followed = {
            edge.name: known if (known := before.get(edge.name)) is not None and known.edge == edge else _Followed(edge)
            for edge in edges
            if edge.name in names
        }
        self.wake()

    def wake(self) -> None:
        """Refresh now: a serve behind an edge stopped answering, or there are new edges."""
        self._woken.set()

    async def target(self, edge: str) -> Target:
        """Where its worker answers: the last proved address, or that of a first refresh. Raises StartFailed."""
        followed = self._followed.get(edge)
        if followed is None:
            raise StartFailed(f"there is no edge '{edge}': add [edge.{edge}], then `stoker reload`", code="no_edge")
        if (known := followed.target()) is not None:
            return known
        async with followed.lock:
            if followed.address is None:
                await followed.refresh(self._clock)
        if (found := followed.target()) is None:
            raise StartFailed(followed.problem, code="edge_failed")
        return found

    async def run(self, on_proved: OnProved) -> None:
        """For ever. `on_proved` gets each proved address after each refresh, whether it is new or not."""
        while True:
            self._woken.clear()
            await asyncio.gather(*[self._refresh(one, on_proved) for one in self._followed.values()])
            await asyncio.sleep(AT_ONCE)
            if not self._followed:
                await self._woken.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._woken.wait()

    async def _refresh(self, followed: _Followed, on_proved: OnProved) -> None:
        async with followed.lock:
            await followed.refresh(self._clock)
        target = followed.target()
        if target is not None and not followed.problem:
            await on_proved(followed.edge.name, target)

    def status(self) -> list[dict[str, Any]]:
        """Each edge with its last proved address, when that was, and what is wrong now."""
        return [
            {
                "name": name,
                "address": None if one.address is None else str(one.address),
                "proved_at": one.proved_at,
                "problem": one.problem or None,
            }
            for name, one in self._followed.items()
        ]
