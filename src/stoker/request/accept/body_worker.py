"""A thread for large bodies: work that would block the event loop for too long runs there, one body at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Found = TypeVar("Found")


class BodyWorker:
    """Starts its thread with the first body. More threads would not be faster: they share one interpreter.

    The budget for all bodies limits how many wait for it; the limits of one body bound each step.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "stoker-bodies")

    def run(self, work: Callable[[], Found]) -> asyncio.Future[Found]:
        """Run `work` on the thread. On cancel, queued work is dropped, and the result of running work is discarded."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Drop queued work. Does not wait for running work."""
        self._thread.shutdown(wait=False, cancel_futures=True)
