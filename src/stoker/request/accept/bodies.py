"""What all request bodies share: the memory that they may take, how much of them one turn of the event loop reads, and
a thread for those that are large.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stoker.domain.access import ListenSettings
from stoker.domain.errors import CapacityError

MIN_BUDGET = 64 * 2**20
MEMORY_DIVISOR = 10
"""The default budget is the machine's memory divided by this."""
SMALL = 64 * 1024
"""Bytes up to which a body may also use the reserve."""
_RESERVE = 16
"""The budget divided by this is reserved for small bodies, so that large ones cannot lock them out."""
RETRY_AFTER = 5.0
LARGE_READ = 64 * 1024
"""Bytes of a read that counts as large. Smaller ones are not counted."""
MAX_BURST = 512 * 1024
"""Bytes of large reads per turn, by all connections together: uvloop would read up to 8 MiB of each one."""

Result = TypeVar("Result")


class BodyBudget:
    """One limit for all request bodies that are in memory at the same time. Counts bytes as received; copies made while
    a body is read or translated are not counted.

    Each `take` is followed by one `give_back` of the same size: see `HttpExchange`.
    """

    __slots__ = ("_limit_for_large", "held", "limit", "refused")

    def __init__(self, limit: int = MIN_BUDGET) -> None:
        self.resize(limit)
        self.held = 0
        self.refused = 0
        """How many bodies were refused for lack of room."""

    def resize(self, limit: int) -> None:
        """Change the limit. Bodies that are held already stay."""
        self.limit = limit
        self._limit_for_large = limit - limit // _RESERVE

    def has_room(self, size: int, is_small: bool) -> bool:
        """Whether `size` more bytes may be held."""
        return self.held + size <= (self.limit if is_small else self._limit_for_large)

    def take(self, size: int, is_small: bool) -> bool:
        """Hold `size` more bytes; False: there is no room."""
        held = self.held + size
        if held > (self.limit if is_small else self._limit_for_large):
            return False
        self.held = held
        return True

    def give_back(self, size: int) -> None:
        self.held -= size

    def refusal(self) -> CapacityError:
        """The error for a body that there is no room for. Counts it."""
        self.refused += 1
        text = f"Stoker holds {self.held} of {self.limit} bytes of request bodies (front_door.body_budget): retry later"
        return CapacityError(text, code="body_budget", retry_after=RETRY_AFTER)


def least_for(body_limit: int) -> int:
    """The smallest budget in which one body of the largest size fits."""
    return -(-body_limit * _RESERVE // (_RESERVE - 1))


def budget_for(front_door: ListenSettings, memory: int | None) -> int:
    """The configured budget; else a tenth of `memory` (bytes; None: unknown), but at least 64 MiB, and enough for one
    body of the largest size.
    """
    if front_door.body_budget is not None:
        return front_door.body_budget
    return max(MIN_BUDGET, (memory or 0) // MEMORY_DIVISOR, least_for(front_door.body_limit))


class ReadTurns:
    """How much of all uploads one turn of the event loop reads.

    A turn that read from every connection would take longer the more of them upload, and everybody else waits for it.
    So a turn reads about MAX_BURST bytes; connections that have more to send wait, and one of them goes on in each
    later turn.
    """

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


class BodyWorker:
    """A thread for work on large bodies that would block the event loop for too long, one body at a time. It starts
    with the first one. More threads would not be faster: they share one interpreter.

    The budget for all bodies limits how many wait for it; the limits of one body bound each step.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "stoker-bodies")

    def run(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        """Run `work` on the thread. On cancel, queued work is dropped, and the result of running work is discarded."""
        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Drop queued work. Does not wait for running work."""
        self._executor.shutdown(wait=False, cancel_futures=True)
