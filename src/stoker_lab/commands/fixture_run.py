"""Fixtures for a running serve, asked and graded with a progress line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.progress import ProgressLine
from stoker_lab.commands.interruptible import run_interruptible
from stoker_lab.requests.client import ModelClient
from stoker_lab.statistics.stats import Sprt, SprtResult
from stoker_lab.suites import fixture, grading
from stoker_lab.suites.time_left import TimeLeft

if TYPE_CHECKING:
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.suites.fixture import Fixture
    from stoker_lab.suites.grading import GradedFixture, GradingProgress


def fixtures_for(known: RunningServe, suites: Path | None, names: Iterable[str]) -> list[Fixture]:
    """Those in the directory `suites`, else the shipped ones in the wording that the model knows. `names`: every class
    there is."""
    if suites is not None:
        return fixture.read_fixtures(suites, list(names))
    return fixture.shipped_fixtures(fixture.wording_for(known.subject.fingerprint.parts.get("model", "")))


def grade_with_progress(
    known: RunningServe,
    fixtures: Sequence[Fixture],
    done: Sequence[GradedFixture],
    label: str,
    on_step: Callable[[GradingProgress], None],
    test: Callable[[], Sprt] = Sprt,
    more_models: int = 0,
) -> list[GradedFixture]:
    """Ask and grade what is not among `done`. Raises KeyboardInterrupt on Ctrl-C; `on_step` got every grade by then.

    If every fixture is asked, one of each class is asked first, so that the time left is known. `more_models`: how many
    are asked the same afterwards, for the time left.
    """
    left = TimeLeft(fixture.sizes(fixtures))
    last = time.monotonic()
    is_whole = test is not Sprt

    def on_progress(step: GradingProgress) -> None:
        nonlocal last
        on_step(step)
        now = time.monotonic()
        # A test that is never over asks every fixture, whatever the result.
        left.on_graded(step._replace(result=SprtResult.UNDECIDED) if is_whole else step, now - last)
        last = now
        show(step.graded.task_class)

    def on_sample(step: GradingProgress) -> None:
        nonlocal last
        on_step(step)
        now = time.monotonic()
        left.on_sampled(step.graded.task_class, now - last)
        last = now
        show(step.graded.task_class)

    def show(task_class: str) -> None:
        here, whole = left.seconds, left.whole_seconds
        seconds = None if here is None or whole is None else here + more_models * whole
        line.show(f"{label}: {task_class}", left.share / (1 + more_models), seconds)

    async def run() -> list[GradedFixture]:
        client = ModelClient(known.target)
        ask = grading.fixture_asker(client)
        sampled: list[GradedFixture] = []
        try:
            if is_whole:
                sampled = await grading.grade_fixtures(_one_of_each(fixtures, done), ask, (), on_sample, test=test)
            return await grading.grade_fixtures(fixtures, ask, [*done, *sampled], on_progress, test=test)
        finally:
            client.close()

    with ProgressLine("about" if is_whole else "at most") as line:
        return run_interruptible(run())


def _one_of_each(fixtures: Sequence[Fixture], done: Sequence[GradedFixture]) -> list[Fixture]:
    """The first of each class that is not among `done`."""
    asked = {(one.fixture, one.digest) for one in done}
    return list({one.task_class: one for one in reversed(fixtures) if (one.id, one.digest) not in asked}.values())
