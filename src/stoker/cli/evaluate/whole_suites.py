"""Whole suites of one running serve: asked with progress, kept as a result, and gone on with after Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import UsageError

if TYPE_CHECKING:
    from stoker.cli.evaluate.running_serve import RunningServe
    from stoker.domain.run import Run
    from stoker.measure.suites.fixture import Fixture
    from stoker.measure.suites.grading import GradedFixture, GradingProgress

KEPT = 50
"""Earlier results that are looked through for answers."""


def fixtures_for(
    known: RunningServe, classes: Sequence[str], suites: Path | None, names: Sequence[str]
) -> list[Fixture]:
    """Those of `classes`, in the wording that the model knows. `names`: every class there is.

    Raises UsageError: a class has none.
    """
    from stoker.measure.suites import fixture

    if suites is not None:
        found = fixture.read_fixtures(suites, names)
    else:
        found = fixture.shipped_fixtures(fixture.wording_for(known.subject.fingerprint.parts.get("model", "")))
    chosen = [one for one in found if one.task_class in classes]
    have = {one.task_class for one in chosen}
    if lacking := [name for name in classes if name not in have]:
        raise UsageError(
            f"there are no fixtures of {', '.join(lacking)}: write some (docs/reference/suites.md) and name their "
            "directory with --suites DIR",
            code="no_fixtures",
        )
    return chosen


def earlier_runs(known: RunningServe) -> list[Run]:
    """Suites that this serve answered as it is now, the newest first, also those that were broken off."""
    from stoker.domain.run import RunKind
    from stoker.measure.gate import judgement
    from stoker.store.results import Results

    store, mark = Results(known.state), known.subject.fingerprint
    store.sync()
    entries = store.select(RunKind.BOOTSTRAP, known.serve.name, limit=KEPT)
    runs = (store.load(one.id) for one in entries
            if judgement.may_match(RunKind.BOOTSTRAP, one.identity, one.execution, mark))  # fmt: skip
    return [run for run in runs if judgement.matches(RunKind.BOOTSTRAP, run.subject.fingerprint, mark)]


def measure_suites(known: RunningServe, fixtures: Sequence[Fixture], done: Sequence[GradedFixture], quiet: bool) -> Run:
    """Ask what is not among `done`, and keep it. Raises KeyboardInterrupt once what was asked so far is kept."""
    from stoker.cli.evaluate import interruptible
    from stoker.cli.evaluate.progress import ProgressLine
    from stoker.cli.evaluate.save_run import build_run, save_run
    from stoker.domain.run import Outcome, RunKind
    from stoker.measure.requests.client import ModelClient
    from stoker.measure.statistics import stats
    from stoker.measure.suites import grading, whole_suites
    from stoker.measure.suites.fixture import by_class
    from stoker.measure.suites.time_left import TimeLeft

    left = TimeLeft({name: len(own) for name, own in by_class(fixtures).items()})
    graded: list[GradedFixture] = []
    began, last = time.time(), time.monotonic()
    interrupted = False

    def tell(step: GradingProgress) -> None:
        nonlocal last
        graded.append(step.graded)
        now = time.monotonic()
        left.on_graded(step._replace(verdict=stats.SprtVerdict.UNDECIDED), now - last)  # no verdict ends a class here
        last = now
        bar.show(f"{known.serve.name}: {step.graded.task_class}", left.share, left.seconds)

    async def run() -> None:
        client = ModelClient(known.target)
        try:
            await grading.grade_fixtures(
                fixtures, grading.fixture_asker(client), done, tell, test=whole_suites.NeverOver
            )
        finally:
            client.close()

    with ProgressLine(quiet, "at most") as bar:
        try:
            interruptible.run_interruptible(run())
        except KeyboardInterrupt:
            interrupted = True
    names = whole_suites.complete_classes(graded, fixtures)
    outcome = Outcome.INTERRUPTED if interrupted else Outcome.PASSED if names else Outcome.UNDECIDED
    classes = dict.fromkeys(one.task_class for one in fixtures)
    settings: dict[str, object] = {"whole": names, "classes": list(classes)}
    kept = build_run(
        RunKind.BOOTSTRAP, known.subject, began, outcome, whole_suites.findings(graded),
        whole_suites.numbers(graded), settings, {"graded": graded},
    )  # fmt: skip
    if graded:
        save_run(kept, known.state)
    if interrupted:
        raise KeyboardInterrupt
    return kept
