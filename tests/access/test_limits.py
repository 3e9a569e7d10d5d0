"""Windows are computed, limits are exact, and no step of a clock frees or uses up a budget."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.access.limits import RULES, Account, Amounts
from stoker.access.quota import Charge, Quota
from stoker.access.rate_headers import rate_headers
from stoker.access.steady_time import SteadyTime
from stoker.access.windows import LimitWindow
from stoker.domain.errors import ClientError
from stoker.domain.key import UsageLimits

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC).timestamp()


class Hands:
    """A wall clock that can be set, and one that cannot."""

    def __init__(self, wall: float = NOON) -> None:
        self.wall = wall
        self.elapsed = 0.0

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds


def account(**limits: float) -> Account:
    return Account("key 'a'", UsageLimits(**limits))  # type: ignore[arg-type]


def reserve(one: Account, need: Amounts, at: float = NOON) -> None:
    one.check(need, at)
    one.reserve(need, at)


# -- windows -------------------------------------------------------------------------------------------------------


@given(st.floats(0, 4e9))
def test_every_time_is_in_its_window_and_windows_have_no_gaps(at: float) -> None:
    for window in LimitWindow:
        start, end = window.bounds(at)
        assert start <= at < end
        assert window.bounds(end)[0] == end
        assert window.bounds(start) == (start, end)


def test_a_month_ends_with_the_calendar() -> None:
    december = datetime(2026, 12, 31, 23, 59, tzinfo=UTC).timestamp()
    assert LimitWindow.MONTH.bounds(december)[1] == datetime(2027, 1, 1, tzinfo=UTC).timestamp()


# -- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.setting)
def test_each_limit_admits_up_to_itself_and_frees_with_its_window(rule: object) -> None:
    setting, window = rule.setting, rule.window  # type: ignore[attr-defined]
    one = account(**{setting: 10})
    need = Amounts(1, 1, 1, 1.0)
    size = rule.measure(need)  # type: ignore[attr-defined]
    for _ in range(int(10 // size)):
        reserve(one, need)
    with pytest.raises(ClientError) as refused:
        one.check(need, NOON)
    error = refused.value
    end = window.bounds(NOON)[1]
    assert (error.status, error.code, error.retry_after) == (429, "rate_limit_exceeded", end - NOON)
    assert setting in error.message
    assert error.details["limit"] == setting
    one.check(need, end)


def test_what_can_never_fit_is_not_told_to_wait() -> None:
    with pytest.raises(ClientError) as refused:
        account(tokens_per_minute=100).check(Amounts(input=90, output=20), NOON)
    assert (refused.value.status, refused.value.retry_after) == (413, None)


requests = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=30
)


@given(requests, st.integers(1, 300), st.data())
def test_reservations_never_exceed_a_limit_and_settle_to_what_was_used(
    plan: list[tuple[int, int, int, int]], limit: int, data: st.DataObject
) -> None:
    """However requests overlap: what is admitted fits at its admission; at the end exactly the usage is counted."""
    one = account(tokens_per_day=limit)
    running: list[tuple[object, Amounts]] = []
    counted = 0
    for asked_in, asked_out, used_in, used_out in plan:
        need, used = Amounts(1, asked_in, asked_out), Amounts(1, used_in, used_out)
        try:
            one.check(need, NOON)
        except ClientError:
            pass
        else:
            running.append((one.reserve(need, NOON), used))
            reserved = sum(r.amounts.input + r.amounts.output for r, _ in running)  # type: ignore[attr-defined]
            assert need.input + need.output == 0 or counted + reserved <= limit
        if running and data.draw(st.booleans()):
            reservation, used = running.pop(data.draw(st.integers(0, len(running) - 1)))
            one.settle(reservation, used)  # type: ignore[arg-type]
            counted += used.input + used.output
    for reservation, used in running:
        one.settle(reservation, used)  # type: ignore[arg-type]
        counted += used.input + used.output
    assert one.states(NOON)[0].used == counted


def test_a_request_counts_in_the_window_in_which_it_was_admitted() -> None:
    one = account(tokens_per_minute=100)
    reservation = one.reserve(Amounts(1, 40, 40), NOON)
    assert one.states(NOON + 60)[0].used == 0
    one.settle(reservation, Amounts(1, 90, 90))
    assert one.states(NOON + 60)[0].used == 0


def test_limits_that_change_keep_what_was_used() -> None:
    one = account(tokens_per_day=100)
    reserve(one, Amounts(1, 60))
    one.configure(UsageLimits(tokens_per_day=50))
    with pytest.raises(ClientError):
        one.check(Amounts(1, 1), NOON)
    one.configure(UsageLimits(tokens_per_day=61))
    one.check(Amounts(1, 1), NOON)


def test_what_was_used_survives_a_restart() -> None:
    one = account(tokens_per_day=100, requests_per_minute=2)
    reserve(one, Amounts(1, 60))
    again = Account("key 'a'", UsageLimits(tokens_per_day=100, requests_per_minute=2), one.snapshot())
    assert [(s.rule.setting, s.used) for s in again.states(NOON + 1)] == [
        ("requests_per_minute", 1),
        ("tokens_per_day", 60),
    ]
    assert again.states(NOON + 86_400)[1].used == 0


# -- one request ---------------------------------------------------------------------------------------------------


def test_a_request_counts_for_its_key_and_for_its_application_or_for_neither() -> None:
    own, shared = Quota(account(requests_per_minute=5)), Quota(account(requests_per_minute=1))
    first = Charge((own, shared), lambda: NOON)
    with pytest.raises(ClientError):
        Charge((own, shared), lambda: NOON)
    assert (own.active, own.account.states(NOON)[0].used) == (1, 1)
    first.settle(Amounts(1, 5, 5))
    assert (own.active, shared.active) == (0, 0)


def test_an_answer_without_a_ceiling_reserves_what_is_left_at_most() -> None:
    quota = Quota(account(output_tokens_per_minute=500))
    charge = Charge((quota,), lambda: NOON)
    charge.reserve_tokens(800, None)
    assert quota.account.states(NOON)[0].remaining == 0
    charge.settle(Amounts(1, 90, 20))
    assert quota.account.states(NOON)[0].used == 20


@given(st.integers(0, 4000), st.none() | st.integers(0, 10_000), st.integers(1, 5000))
def test_a_charge_leaves_nothing_reserved(size: int, budget: int | None, limit: int) -> None:
    quota = Quota(account(tokens_per_minute=limit, output_tokens_per_minute=limit, cost_per_day=1.0))
    charge = Charge((quota,), lambda: NOON)
    with suppress(ClientError):
        charge.reserve_tokens(size, budget)
        charge.reserve_cost(0.5)
    charge.settle(Amounts())
    assert [state.used for state in quota.account.states(NOON)] == [0, 0, 0]
    assert quota.active == 0


# -- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-30, -5, 5, 30])
def test_a_step_of_the_clock_neither_frees_a_budget_nor_keeps_it_from_being_freed(hours: int) -> None:
    hands = Hands()
    time = SteadyTime(lambda: hands.wall, lambda: hands.elapsed)
    one = account(tokens_per_day=100)
    reserve(one, Amounts(1, 100), time.now())
    hands.wall += hours * 3600
    with pytest.raises(ClientError):
        one.check(Amounts(1, 1), time.now())
    hands.pass_(11 * 3600)
    with pytest.raises(ClientError):
        one.check(Amounts(1, 1), time.now())
    hands.pass_(24 * 3600 + 1)
    one.check(Amounts(1, 1), time.now())


def test_a_clock_that_runs_fast_is_followed() -> None:
    hands = Hands()
    time = SteadyTime(lambda: hands.wall, lambda: hands.elapsed)
    for _ in range(100):
        hands.pass_(3600)
        hands.wall += 1.5
        assert time.now() == pytest.approx(hands.wall)


# -- headers -------------------------------------------------------------------------------------------------------


def test_openai_clients_see_the_tightest_limit_of_each_kind() -> None:
    one = account(requests_per_minute=10, tokens_per_minute=1000, tokens_per_day=1500)
    reserve(one, Amounts(1, 400, 100))
    assert dict(rate_headers(one.states(NOON), NOON, is_messages=False)) == {
        b"x-ratelimit-limit-requests": b"10",
        b"x-ratelimit-remaining-requests": b"9",
        b"x-ratelimit-reset-requests": b"1m0s",
        b"x-ratelimit-limit-tokens": b"1000",
        b"x-ratelimit-remaining-tokens": b"500",
        b"x-ratelimit-reset-tokens": b"1m0s",
    }


def test_anthropic_clients_see_input_and_output_apart() -> None:
    one = account(input_tokens_per_minute=1000, output_tokens_per_minute=200)
    reserve(one, Amounts(1, 400, 100))
    assert dict(rate_headers(one.states(NOON), NOON, is_messages=True)) == {
        b"anthropic-ratelimit-input-tokens-limit": b"1000",
        b"anthropic-ratelimit-input-tokens-remaining": b"600",
        b"anthropic-ratelimit-input-tokens-reset": b"2026-11-21T12:01:00Z",
        b"anthropic-ratelimit-output-tokens-limit": b"200",
        b"anthropic-ratelimit-output-tokens-remaining": b"100",
        b"anthropic-ratelimit-output-tokens-reset": b"2026-11-21T12:01:00Z",
    }
