"""Within a loop the tier stays first, but no tier joins a plan that does not have it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.auto.decide.test_explore import names, planned, two, views

from stoker_auto.decide.in_loop import KEPT, with_tier_kept


@given(views, st.integers(0, 7))
def test_the_others_keep_their_order_and_nobody_joins(given: list, number: int) -> None:  # type: ignore[type-arg]
    plan = planned(given)
    kept = with_tier_kept(plan, f"t{number}")
    assert sorted(names(kept)) == sorted(names(plan))
    assert [name for name in names(kept) if name != f"t{number}"] == [n for n in names(plan) if n != f"t{number}"]
    assert kept.excluded == plan.excluded
    if f"t{number}" in names(plan):
        assert names(kept)[0] == f"t{number}"


def test_the_reason_says_so_only_where_the_order_changes() -> None:
    assert with_tier_kept(two(), "b").steps[0].why.startswith(KEPT)
    assert with_tier_kept(two(), "a") == two()
