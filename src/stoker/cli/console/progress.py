"""Progress with the time left: one live line on a terminal, a line per step elsewhere. On stderr."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from stoker.cli.console import figures, progress_report, terminal

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressLine:
    """`show(what, share, left)`: what is under way, the share that is done (0 to 1), seconds still to come.

    None seconds: unknown. `qualifier` stands before the time: `about`, `at most`.
    """

    def __init__(self, qualifier: str = "about") -> None:
        self._qualifier = qualifier
        self._progress: Progress | None = None
        self._last = ""

    def __enter__(self) -> ProgressLine:
        if not terminal.is_live(stderr=True):
            return self
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._progress = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=30),
            TextColumn("{task.fields[left]}", markup=False), console=terminal.console(stderr=True), transient=True,
        )  # fmt: skip
        self._progress.add_task("", total=1.0, left="")
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, what: str, share: float, left: float | None) -> None:
        words = "" if left is None else f"{self._qualifier} {figures.seconds(max(1.0, left))} left"
        if progress_report.is_wanted():
            progress_report.report(what, share=share, left=left)
        elif self._progress is not None:
            # Full before the end would be a lie.
            self._progress.update(self._progress.task_ids[0], description=what, completed=min(share, 0.99), left=words)
        elif what != self._last:
            terminal.note(f"{what} ({words})" if words else what)
        self._last = what
