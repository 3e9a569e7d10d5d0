"""The money of a day: what is spent of it, and that another day begins with nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.decision import Decision, Routed
from stoker.domain.tier import Cost
from stoker_auto.spending import DailySpending, always_cloud, day_of

NOON = 1_795_262_400.0
"""2026-11-21, 12:00 UTC."""
DAY = 86_400.0


def test_the_day_is_utcs() -> None:
    assert [day_of(NOON + hours * 3600) for hours in (-12.001, -12, 11.999, 12)] == [
        "2026-11-20", "2026-11-21", "2026-11-21", "2026-11-22",
    ]  # fmt: skip


def test_what_is_spent_on_one_day_adds_up_and_counts_for_no_other() -> None:
    spent = DailySpending().add(0.25, NOON).add(0.5, NOON + 3600)
    assert (spent, spent.amount_on(NOON)) == (DailySpending("2026-11-21", 0.75), 0.75)
    assert (spent.amount_on(NOON + DAY), spent.amount_on(NOON - DAY)) == (0.0, 0.0)
    assert spent.add(0.1, NOON + DAY) == DailySpending("2026-11-22", 0.1)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 5 * DAY)), max_size=20))
def test_a_day_has_what_was_spent_on_it_since_it_last_changed(parts: list[tuple[float, float]]) -> None:
    spent, expected = DailySpending(), 0.0
    for amount, after in sorted(parts, key=lambda part: part[1]):
        expected = expected + amount if spent.day == day_of(NOON + after) else amount
        spent = spent.add(amount, NOON + after)
        assert spent.amount_on(NOON + after) == pytest.approx(expected)


def test_cached_tokens_have_their_own_price_or_that_of_fresh_ones() -> None:
    priced, plain = Cost(2.0, 10.0, 0.2, 2.5), Cost(2.0, 10.0)
    assert priced.of(1000, 10, 600, 300) * 1e6 == pytest.approx(100 * 2.0 + 600 * 0.2 + 300 * 2.5 + 10 * 10.0)
    assert plain.of(1000, 10, 600, 300) == plain.of(1000, 10)
    assert Cost(2.0, 10.0, 0.0, 0.0).of(1000, 0, 600, 300) * 1e6 == pytest.approx(200.0)


@given(st.integers(0, 1000), st.integers(0, 2000), st.integers(0, 2000))
def test_no_count_of_cached_tokens_makes_a_request_pay_less_than_nothing(
    prompt: int, cached: int, written: int
) -> None:
    cost = Cost(2.0, 10.0, 0.0, 2.5).of(prompt, 0, cached, written)
    assert -1e-12 <= cost <= prompt * 2.5 / 1e6 + 1e-12


def test_what_came_from_a_cache_is_compared_with_what_that_costs_at_a_cloud() -> None:
    decision = Decision("r", 0.0, "/v1/messages", routed=Routed("chat", "rules", tier="cloud"))
    decision.input_tokens, decision.output_tokens = 1000, 10
    decision.cached_tokens, decision.cache_write_tokens = 600, 300
    cost = Cost(2.0, 10.0, 0.2, 2.5)
    assert always_cloud(decision, [cost]) == cost.of(1000, 10, 600, 300)
