"""Who gets a request first by chance: only one that proved good enough, and never one that the plan excluded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.task import ClassSource, Task
from stoker.domain.tier import Cost, Tier, Verdict
from stoker_auto.decide.explore import with_exploration
from stoker_auto.decide.policy import RoutePlan, TierView, plan_route
from stoker_auto.decide.standing import Standing

TASK = Task("chat", ClassSource.RULES)
PROVED = Standing(Verdict.ALLOW, "allowed: 27 of 27 passed", is_proved=True)
TRUSTED = Standing(Verdict.ALLOW, "trusted, not measured")
DOUBT = Standing(Verdict.VERIFY, "not measured at chat")
DENIED = Standing(Verdict.DENY, "denied: 0 of 3 passed")

views = st.lists(
    st.builds(
        lambda standing, barred, failing, is_loaded, displaces, cost: (
            standing,
            barred,
            failing,
            is_loaded,
            displaces,
            cost,
        ),
        st.sampled_from((PROVED, TRUSTED, DOUBT, DENIED)),
        st.sampled_from(("", "", "", "key_not_cloud")),
        st.sampled_from(("", "", "", "circuit_open")),
        st.booleans(),
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=6,
)
chances = st.floats(0, 1, exclude_max=True)


def planned(given: list[tuple[Standing, str, str, bool, bool, int]]) -> RoutePlan:
    made = []
    for number, (standing, barred, failing, is_loaded, displaces, cost) in enumerate(given):
        tier = Tier(f"t{number}", f"s{number}", cost=Cost(float(cost)))
        made.append(TierView(tier, standing, barred, failing, is_loaded, displaces, float(cost)))
    return plan_route(TASK, made)


def two(second: Standing = PROVED, **view: bool) -> RoutePlan:
    first = TierView(Tier("a", "a"), PROVED)
    return plan_route(TASK, [first, TierView(Tier("b", "b"), second, cost=1.0, **view)])


def names(plan: RoutePlan) -> list[str]:
    return [step.tier.name for step in plan.steps]


def test_a_drawn_request_goes_to_the_other_one_first_and_the_reason_says_so() -> None:
    made = with_exploration(two(), 0.1, 0.05)
    assert names(made) == ["b", "a"]
    assert made.steps[0].why == "explored, allowed: 27 of 27 passed"
    assert made.steps[1] == two().steps[0]


def test_what_is_not_drawn_stays_as_it_is() -> None:
    before = two()
    assert with_exploration(before, 0.1, 0.1) is before
    assert with_exploration(before, 0.0, 0.0) is before


def test_who_is_only_trusted_in_doubt_not_loaded_or_in_the_way_of_another_is_not_tried() -> None:
    for before in (two(TRUSTED), two(DOUBT), two(DENIED), two(is_loaded=False), two(displaces=True)):
        assert with_exploration(before, 0.1, 0.0) is before


def test_each_of_several_is_as_likely() -> None:
    made = planned([(PROVED, "", "", True, False, cost) for cost in range(4)])
    assert [names(with_exploration(made, 0.09, drawn))[0] for drawn in (0.0, 0.029, 0.031, 0.061, 0.0899)] == [
        "t1", "t1", "t2", "t3", "t3",
    ]  # fmt: skip


@given(views, st.floats(0, 0.1), chances)
def test_nobody_comes_in_and_nobody_is_lost(
    given: list[tuple[Standing, str, str, bool, bool, int]], rate: float, drawn: float
) -> None:
    before = planned(given)
    after = with_exploration(before, rate, drawn)
    assert sorted(names(after)) == sorted(names(before))
    assert after.excluded == before.excluded
    excluded = {one.tier for one in before.excluded}
    assert not excluded & set(names(after))
    if names(after) != names(before):
        first = after.steps[0]
        assert first.is_at_hand
        assert names(after)[1:] == [name for name in names(before) if name != first.tier.name]
