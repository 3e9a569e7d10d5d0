"""Which class comes after which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker_auto.decide.class_transitions import REMEMBERED, ClassTransitions


def after(*classes: str) -> str | None:
    turns = ClassTransitions()
    for name in classes:
        turns.on_class(name)
    return turns.next()


def test_what_came_next_most_often_is_expected_next() -> None:
    assert after("plan", "code", "plan") == "code"
    assert after("plan", "code", "plan", "chat", "plan", "code", "plan") == "code"


def test_what_was_never_left_before_has_nothing_after_it() -> None:
    assert after() is None
    assert after("plan") is None
    assert after("plan", "code") is None


def test_the_same_class_again_is_no_change() -> None:
    assert after("plan", "plan", "code", "code", "plan", "plan") == "code"


def test_what_was_usual_long_ago_is_forgotten() -> None:
    turns = ClassTransitions()
    for name in ("plan", "code") * 20 + ("plan", "chat") * (REMEMBERED // 2) + ("plan",):
        turns.on_class(name)
    assert turns.next() == "chat"
    for name in ("a", "b") * REMEMBERED + ("plan",):
        turns.on_class(name)
    assert turns.next() is None


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=80))
def test_the_present_class_never_follows_itself(classes: list[str]) -> None:
    assert after(*classes) != classes[-1]
