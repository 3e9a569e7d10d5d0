"""Progress while a model loads: one live line on a terminal, a line per phase elsewhere.

The blocking call runs in a thread; meanwhile this polls /status for the phase.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from stoker.cli.console import figures, progress_report, terminal
from stoker.cli.console.answers import StatusAnswer
from stoker.cli.console.control import Control
from stoker.domain.errors import StokerError

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
POLL_INTERVAL = 0.2
"""Seconds between two polls of /status."""


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """What a serve is waiting for. Times are seconds; `expected` None: unknown."""

    words: str
    elapsed: float
    expected: float | None


class PhaseDisplay(Protocol):
    def show(self, phase: LoadPhase) -> None: ...


def phase_of(status: StatusAnswer, name: str, waited: float) -> LoadPhase:
    """The phase of loading (or stopping) serve `name`; `waited` is how long this command has waited so far."""
    serve = status.serve(name)
    swaps = (slot.swap for slot in status.slots_of(serve) if slot.swap is not None) if serve else iter(())
    swap = next(swaps, None)
    if serve is None or swap is None:
        words = f"{serve.state} {name}" if serve and serve.state in ("starting", "draining", "stopping") else "asking"
        expected = serve.load_seconds if serve and serve.state == "starting" else None
        return LoadPhase(words, waited, expected)
    going = ", ".join(swap.stopping) or "nothing"
    if swap.phase == "draining":
        left = sum(s.in_flight for s in status.serves if s.name in swap.stopping)
        words = f"draining {going} ({left} in flight)"
    elif swap.phase == "checking":
        words = f"checking {swap.target or going}"
    elif swap.stopping:  # its victims go before its target starts
        words = f"stopping {going}"
    else:
        words = f"{swap.phase} {swap.target or going}"
    target = status.serve(swap.target) if swap.target else None
    is_known = swap.phase != "draining" and (target is None or target.load_seconds is not None)
    expected = swap.expected if is_known else None
    return LoadPhase(words, swap.elapsed, expected)


def watch(
    control: Control, name: str, work: Callable[[Control], T], quiet: bool = False, poll: float | None = None
) -> T:
    """Run `work` with a client of its own and show what serve `name` goes through until it returns.

    Raises what `work` raises. Ctrl-C gives up watching at once; what the running Stoker was asked for goes its way.
    """
    worker = Control(control.path, control.start_hint)
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work(worker))
        except BaseException as error:
            done.set_exception(error)  # raised again by `done.result()` in the caller's thread

    thread = threading.Thread(target=run, name=f"stoker-{name}", daemon=True)
    began = time.monotonic()
    with _view(quiet) as view:
        thread.start()
        try:
            while not wait([done], timeout=poll or POLL_INTERVAL).done:
                try:
                    status = control.status()
                except StokerError:
                    continue  # `work` asks the same process and reports what is wrong with it
                view.show(phase_of(status, name, time.monotonic() - began))
        finally:
            worker.close()
            thread.join(timeout=5)
    return done.result()


def _view(quiet: bool) -> AbstractContextManager[PhaseDisplay]:
    if progress_report.is_wanted():
        return nullcontext(_Report())
    if quiet:
        return nullcontext(_Silence())
    return _live_line() if terminal.is_live(stderr=True) else nullcontext(_Lines())


class _Silence:
    def show(self, phase: LoadPhase) -> None:
        pass


class _Report:
    """For the program that started this command."""

    def show(self, phase: LoadPhase) -> None:
        known = phase.expected is not None and phase.expected > 0
        share = min(0.99, phase.elapsed / phase.expected) if known and phase.expected else None
        progress_report.report(phase.words, share=share)


class _Lines:
    """Without a terminal: each phase once, as a line."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, phase: LoadPhase) -> None:
        kind = phase.words.split(" (")[0]
        if kind in (self._last, "asking"):
            return
        self._last = kind
        expected = f", {figures.seconds(phase.expected)} expected" if phase.expected else ""
        terminal.note(f"{phase.words} (after {figures.seconds(phase.elapsed)}{expected})")


@contextmanager
def _live_line() -> Iterator[_LiveLine]:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
               TextColumn("{task.fields[times]}", markup=False))  # fmt: skip
    with Progress(*columns, console=terminal.console(stderr=True), transient=True) as progress:
        yield _LiveLine(progress)


class _LiveLine:
    """On a terminal: one line that is redrawn and disappears at the end."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("asking", total=None, times="")

    def show(self, phase: LoadPhase) -> None:
        times = figures.seconds(phase.elapsed)
        if phase.expected:
            times += f" of about {figures.seconds(phase.expected)}"
        # A full bar before it is ready would be a lie: an overdue load stands at 99 %.
        done = min(phase.elapsed, phase.expected * 0.99) if phase.expected else 0.0
        self._progress.update(self._task, description=phase.words, total=phase.expected, completed=done, times=times)
