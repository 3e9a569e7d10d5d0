"""Requests that wait for missing weights share one fetch per serve; one that waits too long is refused with the
progress.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stoker.domain.errors import CapacityError
from stoker.domain.lease import Lease

log = logging.getLogger("stoker.fleet")
T = TypeVar("T")
RETRY_AFTER = 60.0


class WeightFetching:
    """Owned by the conductor. `fetch(name)` brings missing weights; `progress(name)` is its progress in words."""

    def __init__(self, fetch: Callable[[str], Awaitable[None]], progress: Callable[[str], str]) -> None:
        self._fetch = fetch
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def task(self, name: str) -> asyncio.Task[None]:
        """The fetch under way, or a new one."""
        task = self._tasks.get(name)
        if task is None:
            log.info("serve %s: fetching its missing weights", name)
            task = self._tasks[name] = self._loop.create_task(self._run(name, self._fetch(name)), name=f"fetch-{name}")
        return task

    def is_fetching(self, name: str) -> bool:
        return name in self._tasks

    async def _run(self, name: str, fetching: Awaitable[None]) -> None:
        try:
            await fetching
        finally:
            del self._tasks[name]

    def acquire_after_fetch(
        self, name: str, limit: float, acquire: Callable[[], Lease | asyncio.Future[Lease]]
    ) -> asyncio.Future[Lease]:
        """The result of `acquire` once the weights are there. The caller may cancel the Future or set an exception.

        The Future raises what the fetch raises, and CapacityError `fetching` after `limit` seconds; the fetch goes on.
        """
        fetching = self.task(name)
        waiter = acquire_after(fetching, lambda _: acquire())
        timer = self._loop.call_later(limit, self._on_limit, name, waiter)
        fetching.add_done_callback(lambda _: timer.cancel())
        return waiter

    async def close(self) -> None:
        """Cancel all fetches; no half-written file stays."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_limit(self, name: str, waiter: asyncio.Future[Lease]) -> None:
        if not waiter.done():
            text = f"the weights of serve '{name}' are being fetched: {self._progress(name)}"
            waiter.set_exception(CapacityError(text, code="fetching", retry_after=RETRY_AFTER))


def acquire_after(
    task: asyncio.Task[T], acquire: Callable[[T], Lease | asyncio.Future[Lease]]
) -> asyncio.Future[Lease]:
    """What `acquire` returns or raises, called with the result of `task`. The caller may cancel the Future or set an
    exception; the task goes on.
    """
    waiter: asyncio.Future[Lease] = task.get_loop().create_future()

    def ended(task: asyncio.Task[T]) -> None:
        if task.cancelled():
            if not waiter.done():
                waiter.set_exception(CapacityError("Stoker is shutting down", code="shutting_down", retry_after=5.0))
        elif (failure := task.exception()) is not None:
            if not waiter.done():
                waiter.set_exception(failure)
        elif not waiter.done():
            try:
                _chain(waiter, acquire(task.result()))
            except Exception as refusal:  # no request may wait forever
                waiter.set_exception(refusal)

    task.add_done_callback(ended)
    return waiter


def _chain(waiter: asyncio.Future[Lease], got: Lease | asyncio.Future[Lease]) -> None:
    """Resolve `waiter` with the result of `got`; cancelling `waiter` cancels `got`."""
    if isinstance(got, Lease):
        waiter.set_result(got)
        return

    def arrived(done: asyncio.Future[Lease]) -> None:
        if waiter.done():  # the request left at the same moment
            if not done.cancelled() and done.exception() is None:
                done.result().release()
        elif done.cancelled():
            waiter.cancel()
        elif (failure := done.exception()) is not None:
            waiter.set_exception(failure)
        else:
            waiter.set_result(done.result())

    got.add_done_callback(arrived)
    waiter.add_done_callback(lambda _: got.cancel())
