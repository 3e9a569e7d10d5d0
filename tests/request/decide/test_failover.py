"""What each failure means: does the next candidate answer, is the serve well, does its fallback answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import (
    BEYOND_THE_DEVICE,
    EMPTY_ANSWER,
    FIRST_BYTE,
    REJECTED,
    CapacityError,
    ClientError,
    ConfigError,
    OurBug,
    StartFailed,
    StokerError,
    UpstreamError,
)
from stoker.domain.serve import FallbackCause
from stoker.request.decide.failover import BY_STATUS, HealthEffect, moves_on, rule_for

STAYS = (400, 406, 411, 414, 415, 417, 422)


def refusal(status: int, code: str = "upstream_refused") -> ClientError:
    return ClientError("x", code=code, status=status)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 408, 409, 410, 413, 425, 429, 451, 418, 499])
def test_what_another_tier_may_not_have_moves_on(status: int) -> None:
    assert rule_for(refusal(status)).moves_on


@pytest.mark.parametrize("status", STAYS)
def test_what_would_fail_anywhere_stays_and_is_no_fault_of_the_tier(status: int) -> None:
    rule = rule_for(refusal(status))
    assert (rule.moves_on, rule.health) == (False, HealthEffect.WELL)


WELL, UNKNOWN, FAULT, HANGS = HealthEffect
MEMORY, UNAVAILABLE, BUSY = FallbackCause


@pytest.mark.parametrize(
    ("error", "is_left", "health", "cause"),
    [
        (UpstreamError("x"), True, FAULT, UNAVAILABLE),
        (UpstreamError("x", code="unreachable"), True, FAULT, UNAVAILABLE),
        (UpstreamError("x", code="upstream_auth"), True, FAULT, UNAVAILABLE),
        (UpstreamError("x", code="draining"), True, FAULT, UNAVAILABLE),
        (UpstreamError("x", code=REJECTED), True, WELL, UNAVAILABLE),
        (UpstreamError("x", code=EMPTY_ANSWER), True, WELL, UNAVAILABLE),
        (UpstreamError("x", code=FIRST_BYTE, status=504), True, HANGS, UNAVAILABLE),
        (UpstreamError("x", code="not_counted", status=501), True, WELL, None),
        (UpstreamError("x", code="upstream_refused", status=400), False, WELL, None),
        (UpstreamError("x", code="upstream_refused", status=404), True, FAULT, UNAVAILABLE),
        (UpstreamError("x", code="upstream_refused", status=429), True, UNKNOWN, BUSY),
        (StartFailed("x"), True, FAULT, UNAVAILABLE),
        (StartFailed("x", code="parked"), True, FAULT, UNAVAILABLE),
        *((StartFailed("x", code=code), True, FAULT, MEMORY) for code in sorted(BEYOND_THE_DEVICE)),
        *(
            (CapacityError("x", code=code), True, UNKNOWN, BUSY)
            for code in ("queue_full", "no_place", "queue_timeout", "swap_timeout", "upstream_busy")
        ),
        (CapacityError("x", code="draining"), True, UNKNOWN, UNAVAILABLE),
        (CapacityError("x", code="fetching"), True, UNKNOWN, UNAVAILABLE),
        (CapacityError("x", code="queue_bytes"), True, UNKNOWN, None),
        (CapacityError("x", code="cut"), False, UNKNOWN, None),
        (CapacityError("x", code="shutting_down"), False, UNKNOWN, None),
        (ClientError("x", code="needs_force", status=403), True, UNKNOWN, UNAVAILABLE),
        (ClientError("x", code="context_length_exceeded"), True, WELL, None),
        (ClientError("x", code="would_lose"), True, WELL, None),
        (ClientError("x", code="image_unavailable"), False, WELL, None),
        (ClientError("x", code="unknown_model", status=404), True, FAULT, None),
        (OurBug("x"), False, UNKNOWN, None),
        (StokerError("x"), False, UNKNOWN, None),
        (ConfigError(["x"]), False, UNKNOWN, None),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_each_kind_of_error_has_its_rule(
    error: StokerError, is_left: bool, health: HealthEffect, cause: FallbackCause | None
) -> None:
    assert rule_for(error)[:3] == (is_left, health, cause)
    assert moves_on(error) is is_left
    assert all(moves_on(error, (asked,)) is (asked is cause) for asked in FallbackCause)


def test_a_broken_connection_to_an_engine_that_ran_out_of_memory_is_of_memory() -> None:
    error = UpstreamError("x", code="upstream_broke")
    assert moves_on(error, (MEMORY,), exit_code="out_of_memory")
    assert not moves_on(error, (MEMORY,), exit_code="exited")


def test_a_server_cannot_keep_a_request_with_itself_by_a_word_of_ours() -> None:
    """A refusal keeps the server's own code."""
    for code in ("draining", "cut", "shutting_down", "internal_error", "key_limit"):
        assert rule_for(refusal(404, code)).moves_on


def test_each_row_of_the_table_has_a_reason_and_only_client_errors_stay() -> None:
    assert all(rule.why for rule in BY_STATUS.values())
    assert tuple(status for status, rule in BY_STATUS.items() if not rule.moves_on) == STAYS


@given(st.sampled_from([ClientError, UpstreamError, StartFailed]), st.integers(400, 599), st.text(max_size=30))
def test_every_status_and_code_has_a_rule_and_what_stays_is_never_held_against_the_tier(
    kind: type[StokerError], status: int, code: str
) -> None:
    rule = rule_for(kind("x", status=status, code=code))
    assert rule.moves_on or (rule.health is not HealthEffect.FAULT and rule.cause is None)
