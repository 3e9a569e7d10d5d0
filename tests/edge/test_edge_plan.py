"""The order of a route sync: what is proved before what, and what is undone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stoker.domain.errors import OurBug
from stoker_edge.plan import TABLE, StepOutcome, SyncEnd, SyncStep, is_success, next_step

Path = tuple[tuple[SyncStep, StepOutcome], ...]


def passes(step: SyncStep | SyncEnd, so_far: Path = ()) -> Iterator[tuple[Path, SyncEnd]]:
    """Every way in which a pass from `step` can go, with its end."""
    if isinstance(step, SyncEnd):
        yield so_far, step
        return
    for outcome in StepOutcome:
        if (step, outcome) in TABLE:
            assert (step, outcome) not in so_far, "a circle"
            yield from passes(TABLE[step, outcome], (*so_far, (step, outcome)))


EVERY = [*passes(SyncStep.DISCOVER), *passes(SyncStep.RESUME)]


def test_each_step_can_succeed_and_fail_and_is_reached() -> None:
    for step in SyncStep:
        assert (step, StepOutcome.OK) in TABLE
        assert (step, StepOutcome.FAILED) in TABLE
    assert {step for path, _ in EVERY for step, _ in path} == set(SyncStep)


def test_only_a_comparison_can_find_the_same() -> None:
    assert {step for step, outcome in TABLE if outcome is StepOutcome.SAME} == {SyncStep.COMPARE, SyncStep.RESUME}
    with pytest.raises(OurBug, match="cannot end with same"):
        next_step(SyncStep.RELOAD, StepOutcome.SAME)


def test_the_file_is_replaced_only_after_the_worker_was_proved_and_the_candidate_validated() -> None:
    for path, _ in EVERY:
        steps = [step for step, _ in path]
        if SyncStep.REPLACE in steps:
            before = path[: steps.index(SyncStep.REPLACE)]
            assert (SyncStep.PROBE, StepOutcome.OK) in before
            assert (SyncStep.GENERATE, StepOutcome.OK) in before
            assert (SyncStep.VALIDATE, StepOutcome.OK) in before


def test_the_new_file_is_loaded_only_after_a_probe_and_a_validation_in_place() -> None:
    for path, _ in EVERY:
        steps = [step for step, _ in path]
        if SyncStep.RELOAD in steps:
            before = path[: steps.index(SyncStep.RELOAD)]
            assert {(SyncStep.PROBE, StepOutcome.OK), (SyncStep.PROBE_INSTALLED, StepOutcome.OK)} & set(before)
            assert before[-1] == (SyncStep.VALIDATE_IN_PLACE, StepOutcome.OK)


def test_a_switch_counts_only_if_it_was_verified() -> None:
    for path, end in EVERY:
        assert (end is SyncEnd.SWITCHED) == ((SyncStep.VERIFY, StepOutcome.OK) in path)


@pytest.mark.parametrize("step", [SyncStep.REPLACE, SyncStep.VALIDATE_IN_PLACE, SyncStep.RELOAD, SyncStep.VERIFY])
def test_a_failure_after_the_file_was_touched_restores_the_old_one(step: SyncStep) -> None:
    for path, end in EVERY:
        if (step, StepOutcome.FAILED) in path:
            assert (SyncStep.RESTORE, StepOutcome.OK) in path or end is SyncEnd.STUCK
            assert end in (SyncEnd.ROLLED_BACK, SyncEnd.STUCK)


def test_nothing_is_touched_in_a_refused_or_unchanged_pass() -> None:
    touching = {SyncStep.REPLACE, SyncStep.RELOAD, SyncStep.RESTORE, SyncStep.RELOAD_OLD}
    for path, end in EVERY:
        if end in (SyncEnd.REFUSED, SyncEnd.UNCHANGED):
            assert not touching & {step for step, _ in path}


def test_the_journal_goes_once_the_ingress_runs_what_is_on_disk_and_not_before() -> None:
    for path, end in EVERY:
        dropped = {step for step, _ in path} & {SyncStep.COMMIT, SyncStep.ABANDON, SyncStep.DISCARD}
        if end is SyncEnd.ROLLED_BACK:
            assert (SyncStep.RELOAD_OLD, StepOutcome.OK) in path
            assert dropped == {SyncStep.ABANDON}
        elif end is SyncEnd.STUCK:
            assert dropped <= {SyncStep.DISCARD}


def test_success_is_switched_or_unchanged() -> None:
    assert {end for end in SyncEnd if is_success(end)} == {SyncEnd.SWITCHED, SyncEnd.UNCHANGED, SyncEnd.PREVIEWED}
