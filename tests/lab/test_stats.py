"""The statistics say what their sources say."""

from __future__ import annotations

import copy
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_lab.statistics.stats import (
    Cusum,
    Sprt,
    SprtResult,
    fixed_sample,
    percentile,
    percentile_if_enough,
    wilson,
)


@pytest.mark.parametrize(
    ("passed", "n", "low"),
    [(10, 10, 0.72), (20, 20, 0.84), (30, 30, 0.89), (50, 50, 0.93), (73, 73, 0.95), (200, 200, 0.981)],
)
def test_wilson_of_a_perfect_run(passed: int, n: int, low: float) -> None:
    found = wilson(passed, n)
    assert found.low == pytest.approx(low, abs=0.006)
    assert found.high == pytest.approx(1.0)


def test_wilson_of_95_in_100_and_of_nothing() -> None:
    assert wilson(95, 100) == (pytest.approx(0.888, abs=0.001), pytest.approx(0.978, abs=0.001))
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 20).low == 0.0


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_rate_that_was_seen(case: tuple[int, int]) -> None:
    passed, n = case
    found = wilson(passed, n)
    assert 0 <= found.low <= passed / n + 1e-9
    assert passed / n - 1e-9 <= found.high <= 1


@pytest.mark.parametrize(
    ("bad", "good", "perfect", "failures"),
    [(0.80, 0.90, 25, 5), (0.85, 0.95, 27, 3), (0.90, 0.97, 40, 3), (0.90, 0.98, 35, 2), (0.95, 0.99, 72, 2)],
)
def test_how_long_a_perfect_run_and_straight_failures_take(
    bad: float, good: float, perfect: int, failures: int
) -> None:
    test = Sprt(bad, good)
    while test.feed(True) is SprtResult.UNDECIDED:
        pass
    assert (test.n, test.result) == (perfect, SprtResult.ALLOW)
    test = Sprt(bad, good)
    while test.feed(False) is SprtResult.UNDECIDED:
        pass
    assert (test.n, test.result) == (failures, SprtResult.DENY)


def test_a_verdict_stays() -> None:
    test = Sprt()
    for _ in range(3):
        test.feed(False)
    assert test.feed(True) is SprtResult.DENY
    assert (test.n, test.is_over) == (3, True)


def chances(rate: float) -> tuple[dict[SprtResult, float], float]:
    """How each verdict comes about at a true rate, and the samples it takes on average: every path, none drawn."""
    ways = {0: (1.0, Sprt())}
    ends = dict.fromkeys(SprtResult, 0.0)
    mean, n = 0.0, 0
    while ways:
        n += 1
        after: dict[int, tuple[float, Sprt]] = {}
        for chance, before in ways.values():
            for passed, share in ((True, rate), (False, 1 - rate)):
                test = copy.copy(before)
                verdict = test.feed(passed)
                if test.is_over:
                    ends[verdict] += chance * share
                    mean += n * chance * share
                else:
                    same, _ = after.get(test.passed, (0.0, test))
                    after[test.passed] = same + chance * share, test
        ways = after
    return ends, mean


def test_at_most_five_in_a_hundred_are_wrong_either_way_and_about_sixty_samples_decide() -> None:
    good, samples = chances(0.95)
    assert good[SprtResult.DENY] <= 0.05
    assert good[SprtResult.ALLOW] >= 0.95
    assert samples == pytest.approx(55, abs=1)
    bad, samples = chances(0.85)
    assert bad[SprtResult.ALLOW] <= 0.05
    assert samples == pytest.approx(43, abs=1)
    between, samples = chances(0.90)
    assert between[SprtResult.UNDECIDED] == pytest.approx(0.08, abs=0.01)


def test_what_lies_between_is_given_up_as_undecided() -> None:
    rng = random.Random(3)
    ends = []
    for _ in range(500):
        test = Sprt()
        while not test.is_over:
            test.feed(rng.random() < 0.90)
        ends.append(test)
    assert all(test.n <= test.most for test in ends)
    assert any(test.result is SprtResult.UNDECIDED and test.n == test.most for test in ends)


def test_a_fixed_sample_of_the_same_errors() -> None:
    assert [fixed_sample(0.80, 0.90, 0.05), fixed_sample(0.85, 0.95, 0.05)] == [
        pytest.approx(133, abs=3),
        pytest.approx(89, abs=3),
    ]


@pytest.mark.parametrize(
    "wrong", [(0.9, 0.9, 0.05), (0.95, 0.85, 0.05), (0.0, 0.5, 0.05), (0.8, 1.0, 0.05), (0.8, 0.9, 0.5)]
)
def test_a_test_that_cannot_be_is_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="needs"):
        Sprt(*wrong)


def runs_until_alarm(rate: float, rng: random.Random, most: int = 200_000) -> int:
    alarm = Cusum()
    while alarm.n < most and not alarm.feed(rng.random() < rate):
        pass
    return alarm.n


def test_drift_is_found_within_seventy_and_a_false_alarm_comes_once_in_thousands() -> None:
    rng = random.Random(11)
    assert sum(runs_until_alarm(0.08, rng) for _ in range(400)) / 400 < 75
    assert sum(runs_until_alarm(0.20, rng) for _ in range(400)) / 400 < 25
    assert sum(runs_until_alarm(0.02, rng) for _ in range(150)) / 150 > 2000


def test_an_alarm_stays_until_it_is_reset() -> None:
    alarm = Cusum(limit=1.0)
    assert alarm.feed(True)
    assert alarm.feed(False)
    alarm.reset()
    assert not alarm.feed(False)
    assert alarm.n == 1


def test_percentiles_lie_between_their_neighbours_and_of_nothing_there_is_none() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([0.0, 10.0], 0.25) == 2.5
    assert percentile([5.0], 0.99) == 5.0
    assert percentile([], 0.5) is None


def test_a_percentile_needs_samples_enough_to_mean_anything() -> None:
    assert percentile_if_enough([1.0] * 299, 0.99) is None
    assert percentile_if_enough([1.0] * 300, 0.99) == 1.0
    assert percentile_if_enough([1.0], 0.5) == 1.0
    assert math.isclose(1 - 0.99**299, 0.95, abs_tol=0.001)
