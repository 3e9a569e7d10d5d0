"""What is expected next, and what it is measured by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.fleet.warm.predict import LIMIT, REMEMBERED, Predictor, Score, Why, expect

ALL = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("", []),
        ("a", []),
        ("ab", [("a", Why.FREQUENCY)]),
        ("abcabc", [("a", Why.PATTERN), ("b", Why.FREQUENCY)]),
        ("abcabdabcab", [("d", Why.PATTERN), ("a", Why.FREQUENCY)]),  # after c a b came d, though after a b mostly c
        ("abacad", [("a", Why.FREQUENCY), ("c", Why.FREQUENCY)]),
    ],
    ids=["nothing", "one", "no-pattern-yet", "a-round", "three-say-more-than-two", "the-most-frequent"],
)
def test_a_pattern_goes_before_frequency(history: str, expected: list[tuple[str, Why]]) -> None:
    assert expect(history, ALL, {}) == expected


def test_a_rule_goes_first_and_only_for_its_class() -> None:
    rules = {"code": "d"}
    assert expect("abab", ALL, rules, "code") == [("d", Why.RULE), ("a", Why.PATTERN)]
    assert expect("abab", ALL, rules, "prose") == expect("abab", ALL, rules, None) == [("a", Why.PATTERN)]


def test_a_shorter_ending_serves_where_the_longer_one_is_new() -> None:
    assert expect("abdcab", ALL, {})[0] == ("d", Why.PATTERN)


def test_what_is_not_there_any_more_is_not_expected() -> None:
    assert expect("abcabc", ("b", "c"), {}) == [("b", Why.FREQUENCY)]


@given(st.lists(st.sampled_from(ALL), max_size=40), st.sampled_from([None, "x", "y"]))
def test_whatever_the_history_the_resident_is_not_expected_and_nobody_twice(history: list[str], kind: str) -> None:
    found = [serve for serve, _ in expect(history, ALL, {"x": "a"}, kind)]
    assert len(found) == len(set(found)) <= LIMIT
    assert not history or history[-1] not in found


def test_each_change_of_model_is_counted_once_as_hit_miss_or_none() -> None:
    score = Score()
    predictor = Predictor(score, {})

    def start(serve: str) -> Score:
        predictor.on_started(serve)
        predictor.expect(ALL)
        return Score(score.hit, score.miss, score.none)

    assert start("a") == Score(), "nobody could know the first one"
    assert start("b") == Score(none=1)
    assert start("b") == Score(none=1), "the same again is no change"
    assert start("a") == Score(hit=1, none=1)
    assert start("c") == Score(hit=1, miss=1, none=1)


def test_a_prediction_is_measured_once() -> None:
    score = Score()
    predictor = Predictor(score, {})
    predictor.on_started("a")
    predictor.on_started("b")
    assert predictor.expect(ALL) == [("a", Why.FREQUENCY)]
    predictor.on_started("a")
    predictor.on_started("b")
    assert score == Score(hit=1, none=2)


def test_a_round_is_learnt_after_one_round() -> None:
    score = Score()
    predictor = Predictor(score, {})
    for serve in "abcd" * 10:
        predictor.on_started(serve)
        predictor.expect(ALL)
    assert score == Score(hit=35, miss=3, none=1)


def test_the_history_does_not_grow() -> None:
    predictor = Predictor(Score(), {})
    for number in range(3 * REMEMBERED):
        predictor.on_started(f"serve-{number}")
    assert len(predictor._history) == REMEMBERED
