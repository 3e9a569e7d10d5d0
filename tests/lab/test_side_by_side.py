"""Two runs side by side."""

from __future__ import annotations

import pytest

from stoker.domain.run import Fingerprint, Number, Outcome, Run, RunKind, Subject
from stoker_lab.comparison.runs import compare_runs, most_important, spread
from stoker_lab.statistics.stats import Interval, wilson


def run(parts: dict[str, str], **numbers: Number) -> Run:
    named = {name.replace("__", "."): value for name, value in numbers.items()}
    subject = Subject("a", "a", "http://x/v1", fingerprint=Fingerprint(parts=parts))
    return Run("one", RunKind.BENCHMARK, 0, 0, subject, Outcome.PASSED, numbers=named)


def test_numbers_stand_side_by_side_with_difference_and_spreads() -> None:
    before = run({"model": "x"}, rate=100.0, rate_low=90.0, rate_high=110.0, only=None, tools__passed=9, tools__n=10)
    after = run({"model": "y"}, rate=150.0, rate_low=140.0, rate_high=160.0, tools__passed=20, tools__n=20)
    found = compare_runs(before, after)
    assert found.fingerprint_difference.identity == ["model: x -> y"]
    assert [row.name for row in found.rows] == ["only", "rate", "tools rate"]
    only, rate, tools = found.rows
    assert (only.before, only.difference, only.share, only.spreads_are_apart) == (None, None, None, False)
    assert (rate.difference, rate.share, rate.spreads_are_apart) == (50.0, 0.5, True)
    assert (tools.before, tools.after) == (0.9, 1.0)
    assert tools.difference == pytest.approx(0.1)
    assert tools.spread_before == wilson(9, 10)
    assert not tools.spreads_are_apart


def test_a_number_says_where_it_lies_or_does_not() -> None:
    assert spread("x", {"x": 1, "x_min": 0, "x_max": 2}) == Interval(0.0, 2.0)
    assert spread("x", {"x": 1, "x_low": None, "x_high": 2}) is None
    assert spread("x.passed", {"x.passed": 1}) is None


def test_of_a_benchmark_the_twelve_figures_that_matter_come_first_with_their_units() -> None:
    names = [
        "output_rate",
        "peak_output_rate",
        "knee_clients",
        "request_rate",
        "decode_rate",
        "ttft_p50",
        "ttft_p95",
        "tpot_p50",
        "tpot_p95",
        "e2e_p50",
        "requests_failed",
        "cached_share",
        "cold_ttft",
        "n_single_token",
    ]
    numbers: dict[str, Number] = {f"{step}{name}": 2.0 for step in ("", "c1.", "c4.") for name in names}
    rows = compare_runs(run({}, **numbers), run({}, **dict.fromkeys(numbers, 3.0))).rows
    shown = most_important(rows, RunKind.BENCHMARK)
    assert [row.name for row in shown] == names[:12]
    assert [row.unit for row in shown[:6]] == ["tokens/s", "tokens/s", "clients", "1/s", "tokens/s", "ms"]
    assert {row.ratio for row in shown} == {1.5}
    assert len(rows) == 3 * len(names)


def test_of_anything_else_what_is_apart_and_what_changed_most_comes_first() -> None:
    before: dict[str, Number] = {
        **{f"n{at:02}": 100 for at in range(20)},
        "x.passed": 1,
        "x.n": 20,
        "y.passed": 5,
        "y.n": 20,
    }
    after: dict[str, Number] = {**before, "n07": 300, "x.passed": 19}
    shown = most_important(compare_runs(run({}, **before), run({}, **after)).rows, RunKind.CANARY)
    assert [row.name for row in shown[:3]] == ["x rate", "y rate", "n07"]
    assert len(shown) == 12
