"""What observations of a job mean. Pure; times are seconds."""

from __future__ import annotations

import pytest

from stoker_ray.job_watch import JobEnd, JobObservation, JobWatch, Reach, is_gone
from stoker_ray.jobs_api import Job, JobStatus

PENDING = Job("j", JobStatus.PENDING)
RUNNING = Job("j", JobStatus.RUNNING)
UP, DOWN, MUTE = Reach.ACCEPTS, Reach.REFUSES, Reach.SILENT


def watch(doubt: str = "", was_running: bool = False) -> JobWatch:
    return JobWatch("j", "10.0.0.1", 0.0, doubt, was_running)


def known(job: Job | None, reach: Reach = DOWN) -> JobObservation:
    return JobObservation(True, job, reach)


def silent(reach: Reach) -> JobObservation:
    return JobObservation(False, None, reach)


@pytest.mark.parametrize(
    ("job", "end"),
    [
        (Job("j", JobStatus.FAILED, exit_code=3), JobEnd(3)),
        (Job("j", JobStatus.FAILED, message="Node is dead.\nmore"), JobEnd(None, "was ended by Ray: Node is dead.")),
        (Job("j", JobStatus.STOPPED), JobEnd(None, "was stopped in Ray")),
        (Job("j", JobStatus.SUCCEEDED), JobEnd(0)),
    ],
)
def test_what_ray_says_is_over_has_ended(job: Job, end: JobEnd) -> None:
    assert watch().on_observed(known(job, UP), 1.0) == end


def test_an_engine_that_loads_for_long_is_not_expected_to_listen() -> None:
    one = watch()
    assert [one.on_observed(known(RUNNING, reach), float(at)) for at, reach in enumerate([DOWN, MUTE] * 500)] == [
        None
    ] * 1000


def test_one_that_listened_and_refuses_twice_has_ended_before_ray_knows() -> None:
    one = watch()
    assert [one.on_observed(known(RUNNING, reach), 1.0) for reach in (UP, DOWN, UP, DOWN)] == [None] * 4
    assert one.on_observed(known(RUNNING, DOWN), 2.0) == JobEnd(None, "does not listen on node 10.0.0.1 any more")


def test_one_that_was_proved_ready_between_two_observations_is_expected_to_listen() -> None:
    one = watch()
    one.on_ready()
    assert one.on_observed(known(RUNNING, DOWN), 1.0) is None
    assert one.on_observed(known(RUNNING, DOWN), 1.2) is not None


def test_a_silent_node_is_lost_after_ten_seconds_and_a_moment_of_silence_is_nothing() -> None:
    one = watch(was_running=True)
    reaches = [(0, MUTE), (5, MUTE), (9, UP), (10, MUTE), (19, MUTE)]
    assert [one.on_observed(silent(reach), float(at)) for at, reach in reaches] == [None] * 5
    end = one.on_observed(silent(MUTE), 20.0)
    assert end is not None
    assert "node 10.0.0.1 is silent for 10 s" in end.how


def test_a_job_that_waits_for_its_gpus_is_given_up_and_the_time_before_its_worker_is_not() -> None:
    one = watch()
    assert [one.on_observed(known(PENDING), float(at)) for at in (1, 15)] == [None, None]
    end = one.on_observed(known(PENDING), 16.0)
    assert end is not None
    assert end.how.startswith("waited 15 s for its GPUs on node 10.0.0.1")


def test_a_head_that_is_away_is_no_end_for_however_long() -> None:
    one = watch()
    assert one.on_observed(known(RUNNING, UP), 0.0) is None
    assert [one.on_observed(silent(UP), float(at)) for at in range(1, 1000)] == [None] * 999


def test_a_head_without_memory_is_no_end_while_the_engine_answers() -> None:
    one = watch()
    assert one.on_observed(known(RUNNING, UP), 0.0) is None
    assert one.on_observed(known(None, UP), 1.0) is None
    end = one.on_observed(known(None, DOWN), 2.0)
    assert end is not None
    assert "is not known to Ray any more (job j)" in end.how


def test_an_unsure_submit_may_appear_for_ten_seconds_and_then_its_doubt_is_told() -> None:
    one = watch("no answer within 15.0 s")
    assert [one.on_observed(known(None), at) for at in (0.0, 9.9)] == [None, None]
    assert one.on_observed(known(None), 10.0) == JobEnd(None, "was not accepted by Ray: no answer within 15.0 s")
    late = watch("no answer within 15.0 s")
    assert late.on_observed(known(None), 9.0) is None
    assert late.on_observed(known(RUNNING), 9.5) is None


def test_a_submit_of_which_nothing_is_ever_heard_ends_as_unknown() -> None:
    one = watch("no answer")
    assert one.on_observed(silent(DOWN), 14.0) is None
    assert one.on_observed(silent(DOWN), 15.0) == JobEnd(None, "may not have been started: no answer")


@pytest.mark.parametrize(
    ("observation", "is_node_dead", "age", "was_seen", "gone"),
    [
        (known(Job("j", JobStatus.STOPPED)), False, 99, True, True),
        (known(Job("j", JobStatus.FAILED, exit_code=1), UP), False, 99, True, True),
        (known(Job("j", JobStatus.FAILED), UP), False, 99, True, False),
        (known(RUNNING), False, 99, True, False),
        (known(PENDING), False, 99, True, False),
        (known(RUNNING, MUTE), True, 99, True, True),
        (known(None), False, 99, True, True),
        (known(None, UP), False, 99, True, False),
        (known(None), False, 9.9, False, False),
        (known(None), False, 10, False, True),
        (silent(DOWN), False, 99, True, False),
        (silent(MUTE), False, 999, True, False),
    ],
)
def test_a_place_is_free_only_when_ray_says_so(
    observation: JobObservation, is_node_dead: bool, age: float, was_seen: bool, gone: bool
) -> None:
    assert is_gone(observation, is_node_dead, age, was_seen) is gone
