"""Whole suites of one running serve: asked with progress, saved as they come, and resumed after Ctrl-C or a crash."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import UsageError

if TYPE_CHECKING:
    from stoker.domain.run import Run, RunKind
    from stoker_lab.commands.running_serve import RunningServe
    from stoker_lab.suites.fixture import Fixture
    from stoker_lab.suites.grading import GradedFixture, GradingProgress

KEPT = 50
"""How many earlier results are searched for answers."""
SAVED_EVERY = 10.0
"""Seconds between two writings of what was graded so far."""


def fixtures_for(
    known: RunningServe, classes: Sequence[str], suites: Path | None, names: Sequence[str]
) -> list[Fixture]:
    """Those of `classes`, in the wording that the model knows. `names`: every class there is.

    Raises UsageError: a class has none.
    """
    from stoker_lab.commands import fixture_run

    chosen = [one for one in fixture_run.fixtures_for(known, suites, names) if one.task_class in classes]
    have = {one.task_class for one in chosen}
    if lacking := [name for name in classes if name not in have]:
        raise UsageError(
            f"there are no fixtures of {', '.join(lacking)}: write some (docs/reference/suites.md) and name their "
            "directory with --suites DIR",
            code="no_fixtures",
        )
    return chosen


def earlier_runs(known: RunningServe, kind: RunKind) -> list[Run]:
    """Results of this serve as it runs now, the newest first, interrupted ones too."""
    from stoker.store.results import Results
    from stoker_lab.gate import judgement

    store, now = Results(known.state), known.subject.fingerprint
    store.sync()
    entries = store.select(kind, known.serve.name, limit=KEPT)
    runs = (store.load(one.id) for one in entries if judgement.may_match(kind, one.identity, one.execution, now))
    return [run for run in runs if judgement.matches(kind, run.subject.fingerprint, now)]


def measure_suites(
    known: RunningServe, fixtures: Sequence[Fixture], done: Sequence[GradedFixture],
    every: Sequence[Fixture] = (), more_models: int = 0,
) -> Run:  # fmt: skip
    """Ask what is not among `done`, and keep it as it comes, `interrupted` until it is whole. Raises KeyboardInterrupt
    once what was asked so far is kept.

    `every`: all fixtures of these classes, if `fixtures` are fewer. `more_models`: see `grade_with_progress`.
    """
    from stoker.domain.run import Outcome, RunKind
    from stoker_lab.artifacts.result_file import new_id
    from stoker_lab.commands.fixture_run import grade_with_progress
    from stoker_lab.commands.save_run import build_run, keeper, save_run
    from stoker_lab.suites import whole_suites

    found: dict[tuple[str, str], GradedFixture] = {}
    began, saved = time.time(), time.monotonic()
    run_id, keep = new_id(RunKind.BOOTSTRAP, known.subject.serve, began), keeper(known.state)
    classes = list(dict.fromkeys(one.task_class for one in fixtures))

    def so_far(is_over: bool) -> Run:
        graded = list(found.values())
        names = whole_suites.complete_classes(graded, every or fixtures)
        outcome = Outcome.PASSED if names else Outcome.UNDECIDED
        return build_run(
            RunKind.BOOTSTRAP, known.subject, began, outcome if is_over else Outcome.INTERRUPTED,
            whole_suites.findings(graded), whole_suites.numbers(graded), {"whole": names, "classes": classes},
            {"graded": graded}, run_id,
        )  # fmt: skip

    def on_step(step: GradingProgress) -> None:
        nonlocal saved
        found[step.graded.fixture, step.graded.digest] = step.graded
        if step.is_new and time.monotonic() - saved >= SAVED_EVERY:
            keep(so_far(is_over=False))
            saved = time.monotonic()

    try:
        grade_with_progress(
            known, fixtures, done, known.serve.name, on_step, whole_suites.NeverOver, more_models
        )  # fmt: skip
    except KeyboardInterrupt:
        if found:
            save_run(so_far(is_over=False), known.state)
        raise
    kept = so_far(is_over=True)
    if kept.findings:
        save_run(kept, known.state)
    return kept
