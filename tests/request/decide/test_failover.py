"""After which failures the next tier is tried: the whole table, and every error that there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.errors import (
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
from stoker.request.decide.failover import BY_STATUS, HealthEffect, rule_for

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


@pytest.mark.parametrize(
    ("error", "moves_on", "health"),
    [
        (UpstreamError("x"), True, HealthEffect.FAULT),
        (UpstreamError("x", code="unreachable"), True, HealthEffect.FAULT),
        (UpstreamError("x", code="upstream_auth"), True, HealthEffect.FAULT),
        (UpstreamError("x", code="draining"), True, HealthEffect.FAULT),
        (UpstreamError("x", code=REJECTED), True, HealthEffect.WELL),
        (UpstreamError("x", code=FIRST_BYTE, status=504), True, HealthEffect.HANGS),
        (StartFailed("x"), True, HealthEffect.FAULT),
        (CapacityError("x", code="queue_full"), True, HealthEffect.UNKNOWN),
        (CapacityError("x", code="upstream_busy"), True, HealthEffect.UNKNOWN),
        (CapacityError("x", code="draining"), False, HealthEffect.UNKNOWN),
        (CapacityError("x", code="cut"), False, HealthEffect.UNKNOWN),
        (CapacityError("x", code="shutting_down"), False, HealthEffect.UNKNOWN),
        (ClientError("x", code="context_length_exceeded"), True, HealthEffect.WELL),
        (ClientError("x", code="would_lose"), True, HealthEffect.WELL),
        (ClientError("x", code="image_unavailable"), False, HealthEffect.WELL),
        (OurBug("x"), False, HealthEffect.UNKNOWN),
        (StokerError("x"), False, HealthEffect.UNKNOWN),
        (ConfigError(["x"]), False, HealthEffect.UNKNOWN),
    ],
    ids=lambda value: getattr(value, "code", None),
)
def test_each_kind_of_error_has_its_rule(error: StokerError, moves_on: bool, health: HealthEffect) -> None:
    assert rule_for(error)[:2] == (moves_on, health)


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
    assert rule.moves_on or rule.health is not HealthEffect.FAULT
