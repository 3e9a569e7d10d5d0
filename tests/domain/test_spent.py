"""The money of a day: what is spent of it, and that another day begins with nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.spending import DailySpending, day_of

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
