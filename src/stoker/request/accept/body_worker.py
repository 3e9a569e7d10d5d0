"""A thread for large bodies: what takes the event loop too long is done there, one body at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Found = TypeVar("Found")


class BodyWorker:
    """Starts its thread with the first body. More of them would not be faster: they share one interpreter.

    How many wait for it is bounded by the budget for all bodies; each step is bounded by what a body may hold.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "stoker-bodies")

    def run(self, work: Callable[[], Found]) -> asyncio.Future[Found]:
        """Run `work` on the thread. On cancel, queued work is dropped; the result of running work is lost."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Drop queued work. Does not wait for running work."""
        self._thread.shutdown(wait=False, cancel_futures=True)
