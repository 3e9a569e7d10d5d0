"""Whole suites of one running serve: asked with progress, saved as a result, and resumed after Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console.errors import UsageError

if TYPE_CHECKING:
    from stoker.cli.evaluate.running_serve import RunningServe
    from stoker.domain.run import Run, RunKind
    from stoker.measure.suites.fixture import Fixture
    from stoker.measure.suites.grading import GradedFixture

KEPT = 50
"""How many earlier results are searched for answers."""


def fixtures_for(
    known: RunningServe, classes: Sequence[str], suites: Path | None, names: Sequence[str]
) -> list[Fixture]:
    """Those of `classes`, in the wording that the model knows. `names`: every class there is.

    Raises UsageError: a class has none.
    """
    from stoker.cli.evaluate import fixture_run

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
    from stoker.measure.gate import judgement
    from stoker.store.results import Results

    store, now = Results(known.state), known.subject.fingerprint
    store.sync()
    entries = store.select(kind, known.serve.name, limit=KEPT)
    runs = (store.load(one.id) for one in entries if judgement.may_match(kind, one.identity, one.execution, now))
    return [run for run in runs if judgement.matches(kind, run.subject.fingerprint, now)]


def measure_suites(
    known: RunningServe, fixtures: Sequence[Fixture], done: Sequence[GradedFixture], quiet: bool,
    every: Sequence[Fixture] = (), more_models: int = 0,
) -> Run:  # fmt: skip
    """Ask what is not among `done`, and keep it. Raises KeyboardInterrupt once what was asked so far is kept.

    `every`: all fixtures of these classes, if `fixtures` are fewer. `more_models`: see `grade_with_progress`.
    """
    from stoker.cli.evaluate.fixture_run import grade_with_progress
    from stoker.cli.evaluate.save_run import build_run, save_run
    from stoker.domain.run import Outcome, RunKind
    from stoker.measure.suites import whole_suites

    found: dict[tuple[str, str], GradedFixture] = {}
    began = time.time()
    interrupted = False
    try:
        grade_with_progress(
            known, fixtures, done, known.serve.name,
            lambda step: found.update({(step.graded.fixture, step.graded.digest): step.graded}), quiet,
            whole_suites.NeverOver, more_models,
        )  # fmt: skip
    except KeyboardInterrupt:
        interrupted = True
    graded = list(found.values())
    names = whole_suites.complete_classes(graded, every or fixtures)
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
