"""Runs the warm pool: asks the pool and the predictor, and owns the holder process.

Every method but `start_kind` and `close` is synchronous and quick, and belongs to the event loop's thread. Those that
change what is warm return the names of sleeping serves that have to be ended now, because others need their memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial

import msgspec

from stoker.blocking import StillBlocked, at_once, in_own_thread
from stoker.domain.access import WarmPool
from stoker.domain.prediction import Prediction, PredictionReason
from stoker.domain.serve import Serve, Warmth
from stoker.fleet.drivers.process_group import describe_exit
from stoker.fleet.warm import pages
from stoker.fleet.warm.holder import HoldProgress, HoldRequest
from stoker.fleet.warm.pool import (
    Command,
    Drop,
    Forecast,
    WarmKind,
    WarmModel,
    WarmModels,
    WarmStatistics,
    WarmStatus,
    sleeper,
)
from stoker.fleet.weights.serve_weights import weights_of
from stoker.system.memory import main_memory

COMMAND = (sys.executable, "-P", "-m", "stoker.fleet.warm.holder")
MIN_MESSAGE_INTERVAL = 0.1
"""Seconds between two messages to the holder at least: requests come and go faster."""
KIND_KNOWN_WITHIN = 2.0
"""Seconds."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a holder that ended by itself is started again; doubled each time."""


def budget(section: WarmPool) -> int:
    """The budget in bytes; `auto` is half of what is available now."""
    return (main_memory().available or 0) // 2 if section.memory is None else section.memory


class WarmKeeper:
    """Create it on a running loop. `close` ends the holder, which also ends whenever this process does."""

    def __init__(
        self,
        budget: int,
        serves: Iterable[Serve],
        log: logging.Logger,
        predict: bool = True,
        command: tuple[str, ...] = COMMAND,
        predictions: Callable[[], Sequence[Prediction]] = tuple,
    ) -> None:
        """`budget` in bytes; pins are loaded at once. `predictions`: what routing expects, the likeliest first."""
        self._predictions = predictions
        self._pool = WarmModels(budget)
        self._log = log
        self._predict = predict
        self._command = command
        self._serves = {serve.name: serve for serve in serves}
        self._hot: set[str] = set()
        self._forecast = Forecast()
        self._expected: dict[str, PredictionReason] = {}
        self._busy = 0
        self._progress: dict[str, HoldProgress] = {}
        self._holder: asyncio.subprocess.Process | None = None
        self._restarts = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._carry_out(self._bring_in_pins())

    # -- what happens to serves --------------------------------------------------------------------------------------

    async def start_kind(self, serve: Serve) -> str:
        """How a start would find the weights now: `warm` (95 % of them in the page cache), `cold`, or `unknown`.

        Ask before the start, which itself makes them warm. Runs in a thread; under a millisecond per 10 GB on Linux 6.5
        and later.
        """
        try:
            async with asyncio.timeout(KIND_KNOWN_WITHIN):
                found = await in_own_thread(partial(_share, serve), f"the weights of serve '{serve.name}'")
        except TimeoutError:
            return "unknown"
        if found is None:
            return "unknown"
        return "warm" if found >= pages.ENOUGH else "cold"

    def on_started(self, serve: Serve) -> tuple[str, ...]:
        """The serve is ready in its slot: reads in what is likely to follow it."""
        self._hot.add(serve.name)
        commands = self._pool.on_started(serve.name)
        if self._predict and serve.slot is not None:
            self._forecast.on_started(serve.slot, serve.name)
            commands += self._expect()
        return self._carry_out(commands)

    def on_predictions_changed(self) -> tuple[str, ...]:
        """The forecast has changed: reads the predicted models in. Lists the directory of each model that is not warm
        yet.
        """
        return self._carry_out(self._expect()) if self._predict else ()

    def on_stopped(self, serve: Serve, asleep: int | None = None) -> tuple[str, ...]:
        """The serve left its slot. `asleep`: it is about to sleep, and will hold so many bytes of host memory. If the
        result contains its own name, it has to be stopped instead.
        """
        self._hot.discard(serve.name)
        if asleep is not None:
            return self._carry_out(self._pool.on_left(sleeper(serve.name, asleep, serve.warm)))
        return self._carry_out(self._pool.on_left(_model(serve)))

    def is_sleeper(self, name: str) -> bool:
        """Whether the pool lets the serve sleep."""
        entry = self._pool.entries.get(name)
        return entry is not None and entry.model.kind is WarmKind.ASLEEP

    def on_gone(self, name: str) -> tuple[str, ...]:
        """The serve ended, and none of its memory is kept."""
        self._hot.discard(name)
        return self._carry_out(self._pool.on_gone(name))

    def set_busy(self, is_busy: bool) -> None:
        """Nothing is read while the machine is busy. Calls are counted: each True needs its False."""
        self._busy = max(0, self._busy + (1 if is_busy else -1))
        self._changed.set()

    def reload(self, budget: int, serves: Iterable[Serve], predict: bool) -> tuple[str, ...]:
        """Applies a new configuration. Changed models become cold; the result names the sleepers to be ended."""
        fresh = {serve.name: serve for serve in serves}
        stale = [entry.model for name, entry in self._pool.entries.items() if self._serves.get(name) != fresh.get(name)]
        self._serves, self._predict = fresh, predict
        self._hot &= fresh.keys()
        commands = [command for model in stale for command in self._pool.on_gone(model.serve)]
        commands += self._pool.on_budget(budget)
        commands += self._expect()
        ended = tuple(model.serve for model in stale if model.kind is WarmKind.ASLEEP)
        return (*ended, *self._carry_out([*commands, *self._bring_in_pins()]))

    def statistics(self) -> WarmStatistics:
        pinned = {name for name, serve in self._serves.items() if serve.warm is Warmth.PIN}
        return WarmStatistics(
            budget=self._pool.budget,
            size=self._pool.size,
            warm=tuple(self._warm(entry.model, entry.model.serve in pinned) for entry in self._pool.entries.values()),
            holder=self._holder.pid if self._holder is not None else None,
            restarts=self._restarts,
            is_paused=self._busy > 0,
            predictions=asdict(self._forecast.score),
        )

    async def close(self) -> None:
        """Ends the holder, and returns when it is gone, even on cancel. A second call does nothing."""
        self._is_closed = True
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        is_cancelled = False
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                is_cancelled = True
        if is_cancelled:
            raise asyncio.CancelledError

    # -- deciding ----------------------------------------------------------------------------------------------------

    def _expect(self) -> list[Command]:
        slots = {name: serve.slot for name, serve in self._serves.items() if serve.slot is not None}
        ideas = self._forecast.expect(slots, self._predictions()) if self._predict else []
        self._expected = {name: why for name, why in ideas if name not in self._hot}
        return self._pool.on_wanted([self._model(name) for name in self._expected])

    def _model(self, name: str) -> WarmModel:
        entry = self._pool.entries.get(name)
        return entry.model if entry is not None else _model(self._serves[name])

    def _bring_in_pins(self) -> list[Command]:
        cold = [serve for serve in self._serves.values() if serve.name not in self._hot | self._pool.entries.keys()]
        pins = [_model(serve) for serve in cold if serve.warm is Warmth.PIN]
        return [command for model in pins for command in self._pool.on_left(model)]

    def _warm(self, model: WarmModel, pinned: bool) -> WarmStatus:
        why = self._expected.get(model.serve, "")
        if model.kind is WarmKind.ASLEEP:
            return WarmStatus(model.serve, model.kind.value, model.size, None, None, pinned, why=why)
        seen = [self._progress[path] for path in model.parts if path in self._progress]
        done, locked = sum(one.done for one in seen), sum(one.locked for one in seen)
        problem = next((one.problem for one in seen if one.problem), "")
        return WarmStatus(model.serve, model.kind.value, model.size, done, locked, pinned, problem, why)

    def _carry_out(self, commands: Iterable[Command]) -> tuple[str, ...]:
        """Sends the holder the complete list of wanted files. The caller ends sleepers."""
        self._changed.set()
        if self._files() and self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._supervise_holder(), name="warm-holder")
        return tuple(one.serve for one in commands if isinstance(one, Drop) and one.kind is WarmKind.ASLEEP)

    def _files(self) -> tuple[str, ...]:
        entries = [entry.model for entry in self._pool.entries.values() if entry.model.kind is WarmKind.PAGES]
        return tuple(dict.fromkeys(path for model in entries for path in model.parts))

    # -- the holder --------------------------------------------------------------------------------------------------

    async def _supervise_holder(self) -> None:
        """Runs one holder after the other, until cancelled; none is left then."""
        pause = 0.0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await self._run_holder()
            except OSError as error:
                self._log.warning(
                    "the warm pool's holder cannot be started (%s): weights do not stay in memory", error.strerror
                )
            except Exception:
                self._log.exception("the warm pool's holder sent a line that cannot be read; another one is started")
            self._restarts += 1
            pause = next_pause(pause, asyncio.get_running_loop().time() - began)
            await asyncio.sleep(pause)

    async def _run_holder(self) -> None:
        """Runs one holder from start to end. Raises OSError if it cannot be started. On cancel the holder is ended
        first, even one that was only being started.
        """
        spawning = asyncio.get_running_loop().create_task(self._spawn(), name="warm-holder-spawn")
        try:
            self._holder = holder = await asyncio.shield(spawning)
            async with asyncio.TaskGroup() as tasks:
                writing = tasks.create_task(self._write(holder), name="warm-holder-input")
                await self._read(holder)
                writing.cancel()
            said = describe_exit(await holder.wait())
            self._log.warning("the warm pool's holder %s; another one is started", said)
        finally:
            self._holder = None
            self._progress.clear()
            await _end(spawning)

    async def _spawn(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            start_new_session=True,  # Ctrl-C is meant for Stoker
            cwd=os.sep,  # so that it keeps no file system mounted
        )

    async def _write(self, holder: asyncio.subprocess.Process) -> None:
        assert holder.stdin is not None
        told = None
        while True:
            self._changed.clear()
            wanted = HoldRequest(self._files(), self._busy > 0)
            if wanted != told:
                self._progress = {path: one for path, one in self._progress.items() if path in wanted.hold}
                holder.stdin.write(msgspec.json.encode(wanted) + b"\n")
                told = wanted
            await self._changed.wait()
            await asyncio.sleep(MIN_MESSAGE_INTERVAL)

    async def _read(self, holder: asyncio.subprocess.Process) -> None:
        assert holder.stdout is not None
        async for line in holder.stdout:
            progress = msgspec.json.decode(line, type=HoldProgress)
            if progress.path not in self._files():
                continue  # it was dropped in the meantime
            if progress.problem:
                self._log.warning("%s is not kept warm: %s", progress.path, progress.problem)
            self._progress[progress.path] = progress


def next_pause(pause: float, lived: float) -> float:
    """Seconds until the next holder, after one that lived for `lived` seconds and was started after `pause` seconds."""
    return FIRST_PAUSE if lived > LONGEST_PAUSE else min(max(FIRST_PAUSE, 2 * pause), LONGEST_PAUSE)


async def _end(spawning: asyncio.Task[asyncio.subprocess.Process]) -> None:
    await asyncio.wait([spawning])
    if spawning.cancelled() or spawning.exception() is not None:
        return
    holder = spawning.result()
    with contextlib.suppress(ProcessLookupError):
        holder.kill()
    await holder.wait()


def _model(serve: Serve) -> WarmModel:
    """Nothing of it is kept warm while its file system does not answer."""
    try:
        weights = at_once(partial(weights_of, serve), f"the weights of serve '{serve.name}'")
    except StillBlocked:
        weights = {}
    return WarmModel(serve.name, weights, WarmKind.PAGES, serve.warm)


def _share(serve: Serve) -> float | None:
    try:
        return pages.cached_share_of(tuple(weights_of(serve)))
    except OSError:
        return None
