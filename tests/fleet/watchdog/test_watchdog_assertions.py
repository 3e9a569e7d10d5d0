"""What must hold of a ready serve: each assertion, true, false and unknown; and what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.fleet.memory.engaged import EngagedDevices
from stoker.fleet.watchdog.assertions import (
    MISSES,
    TABLE,
    Assertion,
    AssertionResult,
    HealthAssessment,
    Observation,
    Remedy,
    ServeHealth,
    assess,
    judge,
)

BOTH = ("GPU-a", "GPU-b")
WELL = Observation(
    wanted_id="m", misses=0, listed=("m", "other"), wanted_context=4096, advertised_context=4096,
    devices=EngagedDevices(BOTH, frozenset(BOTH)), missing=(), differences=(),
    in_flight=2, without_progress=1.0, stall_limit=120.0, asleep=False,
)  # fmt: skip


def found(observation: Observation, assertion: Assertion) -> AssertionResult:
    return next(finding for finding in judge(observation) if finding.assertion is assertion)


def test_every_assertion_is_judged_once_and_in_order() -> None:
    assert [row.assertion for row in TABLE] == list(Assertion)
    assert [finding.assertion for finding in judge(WELL)] == list(Assertion)


def test_a_serve_of_which_everything_holds_is_verified() -> None:
    assert all(finding.ok for finding in judge(WELL))
    assert assess(judge(WELL)) == HealthAssessment(ServeHealth.VERIFIED)


@pytest.mark.parametrize(
    ("change", "assertion", "remedy", "said"),
    [
        ({"misses": MISSES, "miss": "no answer within 5.0 s"}, Assertion.ANSWERS, Remedy.RESTART, "no answer within 5"),
        ({"misses": MISSES, "miss": ""}, Assertion.ANSWERS, Remedy.RESTART, "no reason known"),
        ({"listed": ("n", "o")}, Assertion.EXACT_ID, Remedy.RESTART, "wanted 'm', GET /v1/models shows 'n', 'o'"),
        ({"listed": ()}, Assertion.EXACT_ID, Remedy.RESTART, "shows nothing"),
        (
            {"devices": EngagedDevices(BOTH, frozenset(("GPU-a",)))},
            Assertion.DEVICES,
            Remedy.REPORT,
            "GPU-b of GPU-a, GPU-b are not used",
        ),
        (
            {"devices": EngagedDevices(BOTH, frozenset(BOTH), "its engine printed that it uses another")},
            Assertion.DEVICES,
            Remedy.REPORT,
            "devices: its engine printed that it uses another",
        ),
        ({"missing": ("nvcc is not on PATH",)}, Assertion.DEPENDENCIES, Remedy.REPORT, "nvcc is not on PATH"),
        ({"differences": ("its environment differs in X",)}, Assertion.PROFILE, Remedy.REPORT, "differs in X"),
        ({"advertised_context": 2048}, Assertion.CONTEXT, Remedy.REPORT, "has 2048 tokens, but 4096 are configured"),
        ({"advertised_context": 8192}, Assertion.CONTEXT, Remedy.REPORT, "has 8192 tokens, but 4096 are configured"),
        ({"without_progress": 120.0}, Assertion.PROGRESS, Remedy.RESTART, "2 in flight, the last progress 120 s ago"),
        (
            {"without_progress": 121.0, "running": 3, "queued": 0},
            Assertion.PROGRESS,
            Remedy.RESTART,
            "the engine reports 3 running, the engine reports 0 queued; 120 s are allowed",
        ),
    ],
)
def test_what_fails_makes_it_sick_and_only_what_a_restart_cures_restarts_it(
    change: dict[str, Any], assertion: Assertion, remedy: Remedy, said: str
) -> None:
    result = assess(judge(replace(WELL, **change)))
    assert (result.health, result.failed, result.remedy) == (ServeHealth.SICK, (assertion,), remedy)
    assert said in result.reason


@pytest.mark.parametrize(
    ("change", "assertion"),
    [
        ({"misses": None}, Assertion.ANSWERS),
        ({"misses": MISSES - 1}, Assertion.ANSWERS),
        ({"listed": None}, Assertion.EXACT_ID),
        ({"devices": EngagedDevices(BOTH)}, Assertion.DEVICES),
        ({"missing": None}, Assertion.DEPENDENCIES),
        ({"differences": None}, Assertion.PROFILE),
        ({"advertised_context": None}, Assertion.CONTEXT),
        ({"without_progress": None}, Assertion.PROGRESS),
    ],
)
def test_missing_information_is_unknown_and_never_sick(change: dict[str, Any], assertion: Assertion) -> None:
    observation = replace(WELL, **change)
    assert found(observation, assertion).ok is None
    assert assess(judge(observation)) == HealthAssessment(ServeHealth.UNKNOWN)


def test_nothing_known_at_all_is_unknown() -> None:
    assert assess(judge(Observation("m", wanted_context=1, devices=EngagedDevices(("0",))))) == HealthAssessment(
        ServeHealth.UNKNOWN
    )
    assert assess(()) == HealthAssessment(ServeHealth.UNKNOWN)


def test_a_serve_that_answers_nobody_but_streams_is_not_sick() -> None:
    observation = replace(WELL, misses=MISSES + 4, listed=None, is_moving=True)
    assert "but its streams go on" in found(observation, Assertion.ANSWERS).detail
    assert assess(judge(observation)).health is ServeHealth.UNKNOWN


@pytest.mark.parametrize(
    ("change", "assertion"),
    [
        ({"devices": EngagedDevices()}, Assertion.DEVICES),
        ({"wanted_context": None, "advertised_context": None}, Assertion.CONTEXT),
        ({"advertised_context": 4096 + 255}, Assertion.CONTEXT),
        ({"in_flight": 0, "without_progress": None}, Assertion.PROGRESS),
        ({"asleep": True, "devices": EngagedDevices(BOTH, frozenset())}, Assertion.DEVICES),
        ({"asleep": True, "without_progress": 1e6}, Assertion.PROGRESS),
    ],
)
def test_where_nothing_is_prescribed_nothing_fails(change: dict[str, Any], assertion: Assertion) -> None:
    observation = replace(WELL, **change)
    assert found(observation, assertion).ok is True
    assert assess(judge(observation)).health is ServeHealth.VERIFIED


def test_a_restart_goes_before_a_report_and_both_are_told() -> None:
    result = assess(judge(replace(WELL, listed=("n",), differences=("changed",))))
    assert result.failed == (Assertion.EXACT_ID, Assertion.PROFILE)
    assert result.remedy is Remedy.RESTART
    assert "exact_id: " in result.reason
    assert "profile: changed" in result.reason


def test_a_serve_that_somebody_else_runs_is_only_reported() -> None:
    assert assess(judge(replace(WELL, listed=("n",))), can_restart=False).remedy is Remedy.REPORT


UNLISTED = replace(WELL, wanted_id=None, question="GET /ping", listed=(), in_flight=0)


def test_a_serve_without_a_list_of_models_is_never_verified_and_the_finding_says_what_is_not_proved() -> None:
    assert found(UNLISTED, Assertion.ANSWERS).detail == "GET /ping is answered"
    assert found(UNLISTED, Assertion.EXACT_ID).ok is None
    assert "which model answers is not proved" in found(UNLISTED, Assertion.EXACT_ID).detail
    assert assess(judge(UNLISTED)) == HealthAssessment(ServeHealth.UNKNOWN)


def test_a_serve_without_a_list_of_models_is_restarted_if_it_is_idle_and_does_not_answer_its_probe() -> None:
    silent = replace(UNLISTED, misses=MISSES, miss="it answered 500")
    assert assess(judge(silent)).remedy is Remedy.RESTART
    assert f"{MISSES} probes in a row without an answer to GET /ping" in assess(judge(silent)).reason


def test_one_that_works_may_leave_its_probe_unanswered_until_it_makes_no_progress() -> None:
    """stable-diffusion servers answer nothing while they draw."""
    busy = replace(UNLISTED, misses=MISSES, in_flight=1)
    assert assess(judge(busy)).health is ServeHealth.UNKNOWN
    assert assess(judge(replace(busy, without_progress=121.0))).failed == (Assertion.PROGRESS,)
    listed = replace(WELL, misses=MISSES, in_flight=1)
    assert assess(judge(listed)).remedy is Remedy.RESTART
    assert assess(judge(replace(listed, makes_media=True))).remedy is None
