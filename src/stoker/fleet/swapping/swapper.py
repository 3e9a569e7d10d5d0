"""Runs swaps: each is one task, which stops the victims, starts the target and reports the result.

Requests that wait for missing weights share one download per serve. Swaps that an earlier run of Stoker began and did
not end are finished or undone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from msgspec import structs

from stoker.domain.errors import CapacityError, OurBug, StokerError
from stoker.domain.lease import Lease
from stoker.domain.protocols import FileMarks, Fleet, Journal, QuickCheck, Running, SwapEntry
from stoker.domain.serve import Serve
from stoker.domain.serve_phase import ServePhase
from stoker.domain.swap import SwapReport
from stoker.request.lease.commands import StartSwap
from stoker.request.lease.refusals import cannot_start, lasting_problems
from stoker.request.lease.scheduler import Scheduler

log = logging.getLogger("stoker.fleet")
T = TypeVar("T")
RETRY_AFTER = 60.0


class WeightDownloads:
    """Owned by the conductor. `download(name)` brings missing weights; `progress(name)` is its progress in words."""

    def __init__(self, download: Callable[[str], Awaitable[None]], progress: Callable[[str], str]) -> None:
        self._download = download
        self._progress = progress
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def task(self, name: str) -> asyncio.Task[None]:
        """The download under way, or a new one."""
        task = self._tasks.get(name)
        if task is None:
            log.info("serve %s: fetching its missing weights", name)
            task = self._tasks[name] = self._loop.create_task(
                self._run(name, self._download(name)), name=f"download-{name}"
            )
        return task

    def is_downloading(self, name: str) -> bool:
        return name in self._tasks

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    async def _run(self, name: str, downloading: Awaitable[None]) -> None:
        try:
            await downloading
        finally:
            del self._tasks[name]

    def acquire_after_download(
        self, name: str, limit: float, acquire: Callable[[], Lease | asyncio.Future[Lease]]
    ) -> asyncio.Future[Lease]:
        """The result of `acquire` once the weights are there. The caller may cancel the Future or set an exception.

        The Future raises what the download raises, and CapacityError `fetching` after `limit` seconds; the download
        goes on.
        """
        downloading = self.task(name)
        waiter = acquire_after(downloading, lambda _: acquire())
        timer = self._loop.call_later(limit, self._on_limit, name, waiter)
        downloading.add_done_callback(lambda _: timer.cancel())
        return waiter

    async def close(self) -> None:
        """Cancel all downloads; no half-written file stays."""
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


@dataclass(frozen=True, slots=True)
class SwapDone:
    """The result of a swap: the arguments of `Scheduler.on_swap_done`."""

    report: SwapReport
    error: StokerError | None = None
    cancelled: bool = False
    victims_untouched: bool = False
    files: FileMarks = ()


@dataclass(frozen=True, slots=True)
class SwapCallbacks:
    """What the swapper calls: a swap is done; a ready serve exited (name, how); an address is not used any more (host,
    port).
    """

    on_done: Callable[[SwapDone], None]
    on_exited: Callable[[str, str], None]
    on_disconnected: Callable[[str, int], None]


class Swapper:
    """Owned by the conductor. Reads the scheduler's state; only the conductor changes it."""

    def __init__(
        self, scheduler: Scheduler, fleet: Fleet, journal: Journal, downloads: WeightDownloads, callbacks: SwapCallbacks
    ) -> None:
        self.running: dict[str, Running] = {}
        self.checking: set[int] = set()
        """Ids of the swaps that are in their full check; their victims still run."""
        self.last: dict[str, SwapReport] = {}
        """The last swap of each serve, as its target or as a victim."""
        self._scheduler = scheduler
        self._fleet = fleet
        self._journal = journal
        self._downloads = downloads
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._swaps: dict[int, asyncio.Task[None]] = {}
        self._checks: set[asyncio.Task[None]] = set()

    def start(self, command: StartSwap) -> None:
        name = command.target or command.victims[0]
        state = self._scheduler.serves[name]
        swap = state.slot_state.swaps[command.swap_id]
        report = SwapReport(command.swap_id, command.target, state.slot_name, command.victims, key=swap.key or None)
        report.phases["drain"] = (swap.run_at or swap.decided_at) - swap.decided_at
        graces = {victim: self._scheduler.serves[victim].serve.stop_grace for victim in command.victims}
        serve = state.serve if command.target is not None else None
        task = self._loop.create_task(self._swap(report, graces, serve), name=f"swap-{command.swap_id}")
        self._swaps[command.swap_id] = task
        task.add_done_callback(lambda _: self._report_if_never_run(report, victims_untouched=serve is not None))

    def cancel(self, swap_id: int) -> None:
        task = self._swaps.get(swap_id)
        if task is not None:
            task.cancel()

    def check_start(self, swap_id: int, target: str) -> None:
        """Check whether the target can start, while the victims drain."""
        state = self._scheduler.serves[target]
        swap = state.slot_state.swaps[swap_id]
        task = self._loop.create_task(
            self._check_during_drain(swap_id, state.serve, tuple(v.name for v in swap.victims)),
            name=f"check_start-{swap_id}",
        )
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    def move(self, running: Running) -> None:
        """A running serve answers at another address from now on."""
        name = running.serve.name
        self.mark_unreachable(name)
        self.running[name] = running

    def mark_unreachable(self, name: str) -> None:
        """Forget where a serve runs: it gets no more requests, and its kept connections are closed."""
        running = self.running.pop(name, None)
        if running is not None:
            self._callbacks.on_disconnected(running.target.host, running.target.port)

    @property
    def under_way(self) -> int:
        return len(self._swaps)

    def tasks(self) -> list[asyncio.Task[None]]:
        """The swaps and checks under way, for cancelling them."""
        return [*self._swaps.values(), *self._checks]

    async def _swap(self, report: SwapReport, graces: Mapping[str, float], serve: Serve | None) -> None:
        """One swap. The scheduler gets a result in every case."""
        error: StokerError | None = None
        outcome, start_kind = report.outcome, report.start_kind
        files: FileMarks = ()
        victims_untouched = serve is not None  # a swap that only stops checks nothing first
        entry = SwapEntry(report.slot, serve.name, report.victims) if serve is not None else None
        try:
            with timed(report.phases, "check"), self._marked_checking(report.swap_id):
                if serve is not None and entry is not None:
                    check = await self._quick_check(serve)
                    if check.lacks_weights:  # a start without a request: restored, restarted, keep_loaded
                        await asyncio.shield(self._downloads.task(serve.name))
                        check = await self._quick_check(serve)
                    files = check.files
                    await self._full_check(serve, report.victims, check)
                    await self._journal.begin(entry)
            victims_untouched = False
            with timed(report.phases, "stop"):
                for victim in report.victims:
                    self.mark_unreachable(victim)
                stops = [self._fleet.stop(name, grace, serve is not None) for name, grace in graces.items()]
                await asyncio.gather(*stops)
            if serve is not None:
                began = time.monotonic()
                self.running[serve.name] = running = await self._fleet.start(serve, self._callbacks.on_exited)
                took = time.monotonic() - began
                healthy = min(float(running.facts.get("health_s", took)), took)
                if woke := min(float(running.facts.get("wake_s", 0.0)), healthy):
                    report.phases["wake"] = woke
                report.phases.update(start=healthy - woke, ready=took - healthy)
                start_kind = running.start_kind
            outcome = "ready" if serve is not None else "stopped"
        except asyncio.CancelledError:
            outcome = "cancelled"
        except StokerError as failure:
            error = failure
        except Exception as bug:
            log.exception("swap %s failed inside Stoker", report.swap_id)
            error = OurBug(f"starting serve '{report.serve}' failed inside Stoker: {type(bug).__name__}; see its log")
        finally:
            if error is not None:
                outcome = "failed"
                log.warning("serve %s did not start: %s", report.serve, error.message)
            self._report(
                structs.replace(report, outcome=outcome, start_kind=start_kind), error, victims_untouched, files
            )
            if entry is not None:
                self._journal.end(entry)

    def _report_if_never_run(self, report: SwapReport, victims_untouched: bool) -> None:
        """A task that is cancelled before its first step runs nothing of its coroutine, not even a `finally`."""
        if report.swap_id in self._swaps:
            self._report(structs.replace(report, outcome="cancelled"), None, victims_untouched)

    def _report(
        self, report: SwapReport, error: StokerError | None, victims_untouched: bool, files: FileMarks = ()
    ) -> None:
        del self._swaps[report.swap_id]
        report = structs.replace(report, error=error.message if error is not None else None)
        for name in (report.serve, *report.victims):
            if name is not None:
                self.last[name] = report
        self._callbacks.on_done(SwapDone(report, error, report.outcome == "cancelled", victims_untouched, files))

    @contextlib.contextmanager
    def _marked_checking(self, swap_id: int) -> Iterator[None]:
        self.checking.add(swap_id)
        try:
            yield
        finally:
            self.checking.discard(swap_id)

    async def _check_during_drain(self, swap_id: int, serve: Serve, victims: tuple[str, ...]) -> None:
        """The full check while the victims drain; if it fails, the swap ends. The swap itself repeats it after the
        drain.
        """
        try:
            await self._full_check(serve, victims, await self._quick_check(serve))
        except StokerError as error:
            swap = self._scheduler.state.find_swap(swap_id)
            if swap is not None and swap.run_at is None:
                place = self._scheduler.serves[serve.name].slot_name
                report = SwapReport(swap_id, serve.name, place, victims, "failed", error=error.message)
                self.last[serve.name] = report
                self._callbacks.on_done(SwapDone(report, error, victims_untouched=True))

    async def _quick_check(self, serve: Serve) -> QuickCheck:
        check = self._fleet.quick_check(serve)
        return check if isinstance(check, QuickCheck) else await check

    async def _full_check(self, serve: Serve, victims: tuple[str, ...], check: QuickCheck) -> None:
        """`check`: the quick one, of just now. Raises StartFailed with every problem that prevents the start. Stops
        nothing.
        """
        if check.lasting:
            raise lasting_problems(serve, check.lasting)
        problems = await self._fleet.full_check(serve, victims, check)
        if problems:
            raise cannot_start(serve, problems)


@contextlib.contextmanager
def timed(phases: dict[str, float], phase: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        phases[phase] = time.monotonic() - began


class NoJournal:
    """For a fleet without crash recovery."""

    async def begin(self, swap: SwapEntry) -> None: ...

    def end(self, swap: SwapEntry) -> None: ...

    def unfinished(self) -> list[SwapEntry]:
        return []


class Recovery:
    """Owned by the conductor. `switch(name)` makes a serve resident; it raises StokerError."""

    def __init__(self, scheduler: Scheduler, journal: Journal, switch: Callable[[str], Awaitable[object]]) -> None:
        self._scheduler = scheduler
        self._journal = journal
        self._switch = switch
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Start the recovery. Call it when all serves that still run are adopted."""
        for swap in self._journal.unfinished():
            task = asyncio.get_running_loop().create_task(self._recover(swap), name=f"recover-{swap.slot}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def tasks(self) -> list[asyncio.Task[None]]:
        """The recoveries under way, for cancelling them. The journal keeps what they did not finish."""
        return list(self._tasks)

    async def _recover(self, swap: SwapEntry) -> None:
        """Finish an interrupted swap; if that is not possible, undo it.

        1. the target or a victim runs or is starting: the swap had succeeded, or was undone: nothing to do
        2. the target is still configured: start it
        3. the target is not configured any more, or did not start: start the first configured victim that starts
        """
        names = (swap.target, *swap.victims)
        states = [state for name in names if (state := self._scheduler.serves.get(name)) is not None]
        if all(state.phase is ServePhase.STOPPED for state in states):
            for name in names:
                if name not in self._scheduler.serves:
                    text = "the swap of slot %s to %s was interrupted: %s is not started, it is not configured any more"
                    log.warning(text, swap.slot, swap.target, name)
                elif await self._is_started(name, swap):
                    break
        self._journal.end(swap)

    async def _is_started(self, name: str, swap: SwapEntry) -> bool:
        log.warning("the swap of slot %s to %s was interrupted: starting %s", swap.slot, swap.target, name)
        try:
            await self._switch(name)
        except StokerError as error:
            log.error("after an interrupted swap, serve %s did not start: %s", name, error.message)
            return False
        return True
