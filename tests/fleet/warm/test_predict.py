"""What is expected next, and what it is measured by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.prediction import PredictionReason as Why
from stoker.fleet.warm.pool import LIMIT, REMEMBERED, Forecast, PredictionScore, Predictor, expect

ALL = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ("", []),
        ("a", []),
        ("ab", [("a", Why.FREQUENCY)]),
        ("abcabc", [("a", Why.PATTERN), ("b", Why.FREQUENCY)]),
        (
            "abcabdabcab",
            [("d", Why.PATTERN), ("a", Why.FREQUENCY)],
        ),  # after c a b came d, though after a b mostly c
        ("abacad", [("a", Why.FREQUENCY), ("c", Why.FREQUENCY)]),
    ],
    ids=["nothing", "one", "no-pattern-yet", "a-round", "three-say-more-than-two", "the-most-frequent"],
)
def test_a_pattern_goes_before_frequency(history: str, expected: list[tuple[str, Why]]) -> None:
    assert expect(history, ALL) == expected


def test_what_routing_foresees_goes_first() -> None:
    assert expect("abab", ALL, [("d", Why.RULE)]) == [
        ("d", Why.RULE),
        ("a", Why.PATTERN),
    ]
    assert expect("abab", ALL, [("d", Why.RULE), ("c", Why.PATTERN)]) == [
        ("d", Why.RULE),
        ("c", Why.PATTERN),
    ]
    assert expect("abab", ALL, [("b", Why.RULE)]) == [("a", Why.PATTERN)], "what is in the slot is there"


def test_a_shorter_ending_serves_where_the_longer_one_is_new() -> None:
    assert expect("abdcab", ALL)[0] == ("d", Why.PATTERN)


def test_what_is_not_there_any_more_is_not_expected() -> None:
    assert expect("abcabc", ("b", "c")) == [("b", Why.FREQUENCY)]


@given(st.lists(st.sampled_from(ALL), max_size=40), st.lists(st.sampled_from(ALL), max_size=2))
def test_whatever_the_history_the_resident_is_not_expected_and_nobody_twice(
    history: list[str], foreseen: list[str]
) -> None:
    found = [serve for serve, _ in expect(history, ALL, [(name, Why.RULE) for name in foreseen])]
    assert len(found) == len(set(found)) <= LIMIT
    assert not history or history[-1] not in found


def test_each_change_of_model_is_counted_once_as_hit_miss_or_none() -> None:
    score = PredictionScore()
    predictor = Predictor(score)

    def start(serve: str) -> PredictionScore:
        predictor.on_started(serve)
        predictor.expect(ALL)
        return PredictionScore(score.hit, score.miss, score.none)

    assert start("a") == PredictionScore(), "nobody could know the first one"
    assert start("b") == PredictionScore(none=1)
    assert start("b") == PredictionScore(none=1), "the same again is no change"
    assert start("a") == PredictionScore(hit=1, none=1)
    assert start("c") == PredictionScore(hit=1, miss=1, none=1)


def test_a_prediction_is_measured_once() -> None:
    score = PredictionScore()
    predictor = Predictor(score)
    predictor.on_started("a")
    predictor.on_started("b")
    assert predictor.expect(ALL) == [("a", Why.FREQUENCY)]
    predictor.on_started("a")
    predictor.on_started("b")
    assert score == PredictionScore(hit=1, none=2)


def test_a_round_is_learnt_after_one_round() -> None:
    score = PredictionScore()
    predictor = Predictor(score)
    for serve in "abcd" * 10:
        predictor.on_started(serve)
        predictor.expect(ALL)
    assert score == PredictionScore(hit=35, miss=3, none=1)


def test_the_history_does_not_grow() -> None:
    predictor = Predictor(PredictionScore())
    for number in range(3 * REMEMBERED):
        predictor.on_started(f"serve-{number}")
    assert predictor.remembered == REMEMBERED


SLOTS = {"a": "gpu0", "b": "gpu0", "c": "gpu1", "d": "gpu1"}


def test_a_forecast_keeps_slots_apart_and_what_is_foreseen_goes_first() -> None:
    forecast = Forecast()
    for slot, serve in (("gpu0", "a"), ("gpu0", "b"), ("gpu1", "c")):
        forecast.on_started(slot, serve)
    assert forecast.expect(SLOTS) == [("a", Why.FREQUENCY)]
    assert forecast.expect(SLOTS, [("d", Why.RULE), ("cloud", Why.PATTERN)]) == [
        ("d", Why.RULE),
        ("a", Why.FREQUENCY),
    ]


def test_what_is_foreseen_for_one_slot_is_no_prediction_of_another() -> None:
    forecast = Forecast()
    forecast.on_started("gpu0", "a")
    forecast.expect(SLOTS, [("d", Why.RULE)])
    forecast.on_started("gpu0", "b")
    assert forecast.score == PredictionScore(none=1)


def test_a_slot_that_never_held_anything_may_be_foreseen_for_and_its_first_model_is_no_change() -> None:
    forecast = Forecast()
    assert forecast.expect(SLOTS, [("d", Why.RULE)]) == [("d", Why.RULE)]
    forecast.on_started("gpu1", "d")
    assert forecast.score == PredictionScore()


def test_what_was_foreseen_and_came_is_a_hit_that_habit_would_have_missed() -> None:
    """b comes back after each of the others: habit says a, and the class says c."""

    def hits(foreseen: str) -> PredictionScore:
        forecast = Forecast()
        slots = dict.fromkeys("abcd", "gpu0")
        for serve in "bababab":
            forecast.on_started("gpu0", serve)
        forecast.expect(slots, [(name, Why.RULE) for name in foreseen])
        forecast.on_started("gpu0", "c")
        return PredictionScore(forecast.score.hit, forecast.score.miss)

    assert hits("") == PredictionScore(miss=1)
    assert hits("c") == PredictionScore(hit=1)
