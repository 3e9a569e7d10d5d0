"""Requests that wait for weights: one fetch per serve for all of them; whoever waits too long gets the progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stoker.domain.errors import CapacityError
from stoker.domain.lease import Lease

log = logging.getLogger("stoker.fleet")
T = TypeVar("T")
LONGEST_RETRY = 60.0


class WeightFetching:
    """Owned by the conductor. `fetch(name)` brings missing weights; `progress(name)` says how far it is, in words."""

    def __init__(self, fetch: Callable[[str], Awaitable[None]], progress: Callable[[str], str]) -> None:
        self._fetch = fetch
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def task(self, name: str) -> asyncio.Task[None]:
        """The fetch under way, or a new one."""
        task = self._tasks.get(name)
        if task is None:
            log.info("serve %s: its weights are missing and are fetched", name)
            task = self._tasks[name] = self._loop.create_task(self._run(name, self._fetch(name)), name=f"fetch-{name}")
        return task

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
        waiter: asyncio.Future[Lease] = self._loop.create_future()
        timer = self._loop.call_later(limit, self._late, name, waiter)

        def fetched(task: asyncio.Task[None]) -> None:
            timer.cancel()
            if waiter.done():
                return
            if task.cancelled():
                waiter.set_exception(CapacityError("Stoker is shutting down", code="shutting_down", retry_after=5.0))
            elif (failure := task.exception()) is not None:
                waiter.set_exception(failure)
            else:
                try:
                    _tie(waiter, acquire())
                except Exception as refusal:  # no request may wait forever
                    waiter.set_exception(refusal)

        self.task(name).add_done_callback(fetched)
        return waiter

    async def close(self) -> None:
        """Give up what is under way; nothing half done stays."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _late(self, name: str, waiter: asyncio.Future[Lease]) -> None:
        if not waiter.done():
            text = f"the weights of serve '{name}' are being fetched: {self._progress(name)}"
            waiter.set_exception(CapacityError(text, code="fetching", retry_after=LONGEST_RETRY))


def _tie(waiter: asyncio.Future[Lease], got: Lease | asyncio.Future[Lease]) -> None:
    """`waiter` gets what `got` gets; who leaves `waiter` leaves `got`."""
    if isinstance(got, Lease):
        waiter.set_result(got)
        return

    def arrived(done: asyncio.Future[Lease]) -> None:
        if waiter.done():  # left in this very moment
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
