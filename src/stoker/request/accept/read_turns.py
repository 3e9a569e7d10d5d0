"""How much of all uploads one turn of the event loop reads.

A turn that read from every connection would take longer the more of them upload, and everybody else waits for it. So a
turn reads about MAX_BURST bytes; connections that have more to send wait, and one of them goes on in each later turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

LARGE_READ = 64 * 1024
"""Bytes of a read that counts as large. Smaller ones are not counted."""
MAX_BURST = 512 * 1024
"""Bytes of large reads per turn, by all connections together: uvloop would read up to 8 MiB of each one."""


class ReadTurns:
    """Counts the large reads of all connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._burst = 0
        """Bytes of large reads in this turn."""
        self._is_ending = False
        """`_end_turn` is scheduled."""
        self._waiting: deque[Callable[[], None]] = deque()

    def must_wait(self, size: int) -> bool:
        """Counts a large read of `size` bytes. True: the connection that read it shall pause, and call `wait`."""
        self._burst += size
        self._schedule()
        return self._burst >= MAX_BURST

    def wait(self, read_on: Callable[[], None]) -> None:
        """`read_on` is called once, in a later turn: one per turn, in the order of the calls."""
        self._waiting.append(read_on)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._burst, self._is_ending = 0, False
        if self._waiting:
            read_on = self._waiting.popleft()
            if self._waiting:
                self._schedule()
            read_on()
