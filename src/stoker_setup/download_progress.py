"""Progress of a download: a bar with speed and time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from stoker.cli.console import figures, progress_report, terminal

if TYPE_CHECKING:
    from rich.progress import Progress

    from stoker_setup.prefetch import PrefetchProgress

LINE_INTERVAL = 10.0
"""Seconds between two lines without a terminal."""


class DownloadDisplay(Protocol):
    def show(self, progress: PrefetchProgress) -> None: ...


def display(quiet: bool) -> AbstractContextManager[DownloadDisplay]:
    if progress_report.is_wanted():
        return nullcontext(_Report())
    if quiet:
        return nullcontext(_Silence())
    return _bar() if terminal.is_live(stderr=True) else nullcontext(DownloadLines())


class _Silence:
    def show(self, progress: PrefetchProgress) -> None:
        pass


class _Report:
    """For the program that started this command."""

    def show(self, progress: PrefetchProgress) -> None:
        what = progress.file or "checking sha256"
        progress_report.report(what, done=progress.done, total=progress.total)


class DownloadLines:
    """A line at the first word, then every LINE_INTERVAL seconds, then one when all is there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: tuple[float, int] | None = None
        self._noted_at = 0.0

    def show(self, progress: PrefetchProgress) -> None:
        now = self._clock()
        if self._began is None:
            self._began = (now, progress.done)
        elif progress.file and now - self._noted_at < LINE_INTERVAL:
            return
        self._noted_at = now
        terminal.note(self._text(progress, now - self._began[0], progress.done - self._began[1]))

    def _text(self, progress: PrefetchProgress, elapsed: float, came: int) -> str:
        if not progress.file:
            return f"{figures.size(progress.done)} fetched, checking sha256"
        share = f"{100 * progress.done // progress.total:3d} %  " if progress.total else ""
        whole = f" of {figures.size(progress.total)}" if progress.total is not None else ""
        if elapsed <= 0 or came <= 0:
            return f"{share}{progress.file}  {figures.size(progress.done)}{whole}"
        speed = came / elapsed
        left = (
            f", {figures.seconds((progress.total - progress.done) / speed)} left" if progress.total is not None else ""
        )
        return f"{share}{progress.file}  {figures.size(progress.done)}{whole}, {figures.size(int(speed))}/s{left}"


@contextmanager
def _bar() -> Iterator[_Bar]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24),
               DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=terminal.console(stderr=True), transient=True) as progress:
        yield _Bar(progress)


class _Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def show(self, progress: PrefetchProgress) -> None:
        words = progress.file or "checking sha256"
        if not self._progress.task_ids:  # what was there before it began is no speed
            self._progress.add_task(words, total=progress.total, completed=progress.done)
            return
        self._progress.update(
            self._progress.task_ids[0], description=words, total=progress.total, completed=progress.done
        )
