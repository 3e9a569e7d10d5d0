"""The alarm: the first of two stages."""

from __future__ import annotations

import random
from statistics import fmean

from stoker_lab.statistics.drift import DriftAlarm, DriftDetector, DriftLevel


def until_alarm(rate: float, seed: int, most: int = 100_000) -> int:
    dice, drift = random.Random(seed), DriftDetector()
    for n in range(1, most):
        if drift.feed("a", "canary", dice.random() < rate) is not None:
            return n
    return most


def test_a_rise_to_eight_percent_is_found_within_seventy_and_false_alarms_are_rare() -> None:
    assert fmean(until_alarm(0.08, seed) for seed in range(400)) <= 75
    assert fmean(until_alarm(0.02, seed) for seed in range(60)) >= 1800


def test_each_serve_and_check_counts_for_itself_and_an_alarm_is_given_once() -> None:
    drift = DriftDetector()
    for serve, check in (("a", "tools"), ("a", "json"), ("b", "tools")):
        assert drift.feed(serve, check, True) is None
        assert drift.feed(serve, check, True) is None
    assert drift.feed("a", "tools", True) == DriftAlarm("a", "tools", 3)
    assert drift.feed("a", "tools", True) is None
    drift.forget("a")
    assert drift.levels() == [DriftLevel("b", "tools", drift.levels()[0].value, 2)]


def test_what_was_counted_goes_on_after_a_restart() -> None:
    drift, again = DriftDetector(), DriftDetector()
    drift.feed("a", "tools", True)
    drift.feed("a", "tools", True)
    again.restore(drift.levels())
    assert again.levels() == drift.levels()
    assert again.feed("a", "tools", True) == DriftAlarm("a", "tools", 3)
