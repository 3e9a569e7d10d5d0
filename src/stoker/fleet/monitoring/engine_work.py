"""Whether an engine is working, by its own counters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from stoker.domain.protocols import Running
from stoker.fleet.watchdog.progress import NO_COUNTERS, EngineCounters, WorkProgress, WorkSample, advance

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
        counters: Callable[[Running], Awaitable[EngineCounters]],
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
