"""Windows are computed, limits are exact, and no step of a clock frees or uses up a budget."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.access.limits import RULES, Account, Amounts, LimitRule, RateHeaders
from stoker.access.quota import BYTES_PER_TOKEN, Charge, Quota
from stoker.access.windows import LimitWindow, SteadyTime
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


def quota(**limits: float) -> Quota:
    return Quota(Account("key 'a'", UsageLimits(**limits)))  # type: ignore[arg-type]


def spend(one: Quota, prompt: int = 0, output: int = 0, cost: float = 0.0, at: float = NOON) -> None:
    """A request from its beginning to its end, which uses what it reserves."""
    charge = Charge((one,), lambda: at)
    try:
        charge.reserve_tokens(prompt * BYTES_PER_TOKEN, output)
        charge.reserve_cost(cost)
    except ClientError:
        charge.settle(Amounts())
        raise
    charge.settle(Amounts(prompt, output, cost))


def used(one: Quota, at: float = NOON) -> list[float]:
    return [state.used for state in one.account.states(at)]


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
def test_each_limit_admits_up_to_itself_and_frees_with_its_window(rule: LimitRule) -> None:
    one = quota(**{rule.setting: 10})
    size = rule.requests + rule.input + rule.output + rule.cost
    for _ in range(10 // size):
        spend(one, 1, 1, 1.0)
    with pytest.raises(ClientError) as refused:
        spend(one, 1, 1, 1.0)
    error = refused.value
    end = rule.window.bounds(NOON)[1]
    assert (error.status, error.code, error.retry_after) == (429, "rate_limit_exceeded", end - NOON)
    assert rule.setting in error.message
    assert error.details["limit"] == rule.setting
    spend(one, 1, 1, 1.0, at=end)


def test_what_can_never_fit_is_not_told_to_wait() -> None:
    for one, cost in ((quota(tokens_per_minute=100), 0.0), (quota(cost_per_day=1.0), 2.0)):
        with pytest.raises(ClientError) as refused:
            spend(one, 100, 1, cost)
        assert (refused.value.status, refused.value.retry_after) == (413, None)


requests = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 50), st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=30
)


@given(requests, st.integers(1, 300), st.data())
def test_reservations_never_exceed_a_limit_and_settle_to_what_was_used(
    plan: list[tuple[int, int, int, int]], limit: int, data: st.DataObject
) -> None:
    """However requests overlap: what is admitted fits at its admission; at the end exactly the usage is counted."""
    one = quota(tokens_per_day=limit)
    running: list[tuple[Charge, Amounts]] = []
    counted = 0
    for prompt, output, used_in, used_out in plan:
        charge = Charge((one,), lambda: NOON)
        before = used(one)[0]
        try:
            charge.reserve_tokens(prompt * BYTES_PER_TOKEN, output)
        except ClientError:
            assert used(one)[0] == before
            charge.settle(Amounts())
        else:
            assert before < used(one)[0] <= limit
            running.append((charge, Amounts(used_in, used_out)))
        if running and data.draw(st.booleans()):
            charge, amounts = running.pop(data.draw(st.integers(0, len(running) - 1)))
            charge.settle(amounts)
            counted += amounts.input + amounts.output
    for charge, amounts in running:
        charge.settle(amounts)
        counted += amounts.input + amounts.output
    assert used(one)[0] == counted
    assert one.active == 0


def test_a_request_counts_in_the_window_in_which_it_was_admitted() -> None:
    one = quota(tokens_per_minute=100)
    charge = Charge((one,), lambda: NOON)
    charge.reserve_tokens(160, 40)
    assert used(one, NOON + 60) == [0]
    charge.settle(Amounts(90, 90))
    assert used(one, NOON + 60) == [0]


def test_each_round_of_a_request_is_reserved_on_what_the_earlier_ones_used() -> None:
    one = quota(tokens_per_minute=100)
    charge = Charge((one,), lambda: NOON)
    charge.reserve_tokens(4 * 20, 70)
    assert charge.reserve_round(Amounts(20, 5), 4 * 40, 60)  # of the 60 there are 35
    assert used(one) == [100]
    assert not charge.reserve_round(Amounts(60, 10), 4 * 50, 10)
    assert used(one) == [70]
    assert charge.reserve_round(Amounts(60, 10), 4 * 50, 10, must_fit=False)
    assert used(one) == [130]
    charge.settle(Amounts(110, 15))
    assert used(one) == [125]


def test_what_was_used_without_a_reservation_counts() -> None:
    """Also if it is the first of its window."""
    one = quota(tokens_per_minute=100, cost_per_day=1.0)
    for at in (NOON, NOON + 3600):
        Charge((one,), lambda at=at: at).settle(Amounts(7, 3, 0.25))  # type: ignore[misc]
        assert [state.used for state in one.account.states(at)] == [10, 0.25 if at == NOON else 0.5]


def test_limits_that_change_keep_what_was_used() -> None:
    one = quota(tokens_per_day=100)
    spend(one, 30, 30)
    one.configure(UsageLimits(tokens_per_day=50), None)
    with pytest.raises(ClientError):
        spend(one, 1, 1)
    one.configure(UsageLimits(tokens_per_day=62), None)
    spend(one, 1, 1)


def test_what_was_used_survives_a_restart() -> None:
    one = quota(tokens_per_day=100, requests_per_minute=2)
    spend(one, 30, 30)
    limits = UsageLimits(tokens_per_day=100, requests_per_minute=2)
    again = Quota(Account("key 'a'", limits, one.changes()))
    assert used(again, NOON + 1) == [1, 60]
    assert used(again, NOON + 86_400) == [0, 0]
    assert one.changes() == {}, "nothing has changed since"


# -- one request ---------------------------------------------------------------------------------------------------


def test_a_request_counts_for_its_key_and_for_its_application_or_for_neither() -> None:
    own, shared = quota(requests_per_minute=5), quota(requests_per_minute=1)
    first = Charge((own, shared), lambda: NOON)
    with pytest.raises(ClientError):
        Charge((own, shared), lambda: NOON)
    assert (own.active, used(own)) == (1, [1])
    first.settle(Amounts(5, 5))
    assert (own.active, shared.active) == (0, 0)


def test_an_answer_without_a_ceiling_reserves_what_is_left_at_most() -> None:
    one = quota(output_tokens_per_minute=500)
    charge = Charge((one,), lambda: NOON)
    charge.reserve_tokens(800, None)
    assert used(one) == [500]
    charge.settle(Amounts(90, 20))
    assert used(one) == [20]


def test_a_refund_takes_nothing_off_a_day_that_began_later() -> None:
    one = quota(cost_per_day=1.0)
    now = NOON
    charge = Charge((one,), lambda: now)
    early = charge.spend(0.25)
    now += 86_400
    charge.spend(0.5)
    charge.refund(0.25, early)
    assert used(one, now) == [0.5]
    charge.refund(0.5, charge.spend(0.5))
    assert used(one, now) == [0.5]


@given(st.integers(0, 4000), st.none() | st.integers(0, 10_000), st.integers(1, 5000))
def test_a_charge_leaves_nothing_reserved(size: int, budget: int | None, limit: int) -> None:
    one = quota(tokens_per_minute=limit, output_tokens_per_minute=limit, cost_per_day=1.0)
    charge = Charge((one,), lambda: NOON)
    with suppress(ClientError):
        charge.reserve_tokens(size, budget)
        charge.reserve_cost(0.5)
    charge.settle(Amounts())
    assert used(one) == [0, 0, 0]
    assert one.active == 0


# -- clocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-30, -5, 5, 30])
def test_a_step_of_the_clock_neither_frees_a_budget_nor_keeps_it_from_being_freed(hours: int) -> None:
    hands = Hands()
    time = SteadyTime(lambda: hands.wall, lambda: hands.elapsed)
    one = quota(tokens_per_day=100)
    spend(one, 50, 50, at=time.now())
    hands.wall += hours * 3600
    with pytest.raises(ClientError):
        spend(one, 1, 1, at=time.now())
    hands.pass_(11 * 3600)
    with pytest.raises(ClientError):
        spend(one, 1, 1, at=time.now())
    hands.pass_(24 * 3600 + 1)
    spend(one, 1, 1, at=time.now())


def test_a_clock_that_runs_fast_is_followed() -> None:
    hands = Hands()
    time = SteadyTime(lambda: hands.wall, lambda: hands.elapsed)
    for _ in range(100):
        hands.pass_(3600)
        hands.wall += 1.5
        assert time.now() == pytest.approx(hands.wall)


# -- headers -------------------------------------------------------------------------------------------------------


def test_openai_clients_see_the_tightest_limit_of_each_kind() -> None:
    one = quota(requests_per_minute=10, tokens_per_minute=1000, tokens_per_day=1500)
    spend(one, 400, 100)
    assert dict(RateHeaders([one.account]).at(NOON, is_messages=False)) == {
        b"x-ratelimit-limit-requests": b"10",
        b"x-ratelimit-remaining-requests": b"9",
        b"x-ratelimit-reset-requests": b"1m0s",
        b"x-ratelimit-limit-tokens": b"1000",
        b"x-ratelimit-remaining-tokens": b"500",
        b"x-ratelimit-reset-tokens": b"1m0s",
    }


def test_anthropic_clients_see_input_and_output_apart() -> None:
    one = quota(input_tokens_per_minute=1000, output_tokens_per_minute=200)
    spend(one, 400, 100)
    assert dict(RateHeaders([one.account]).at(NOON, is_messages=True)) == {
        b"anthropic-ratelimit-input-tokens-limit": b"1000",
        b"anthropic-ratelimit-input-tokens-remaining": b"600",
        b"anthropic-ratelimit-input-tokens-reset": b"2026-11-21T12:01:00Z",
        b"anthropic-ratelimit-output-tokens-limit": b"200",
        b"anthropic-ratelimit-output-tokens-remaining": b"100",
        b"anthropic-ratelimit-output-tokens-reset": b"2026-11-21T12:01:00Z",
    }
