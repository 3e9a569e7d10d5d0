"""Two runs side by side."""

from __future__ import annotations

import pytest

from stoker.domain.run import Fingerprint, Kind, Number, Outcome, Run, Subject
from stoker.measure.side_by_side import compare, spread
from stoker.measure.stats import Interval, wilson


def run(parts: dict[str, str], **numbers: Number) -> Run:
    named = {name.replace("__", "."): value for name, value in numbers.items()}
    subject = Subject("a", "a", "http://x/v1", fingerprint=Fingerprint(parts=parts))
    return Run("one", Kind.BENCHMARK, 0, 0, subject, Outcome.PASSED, numbers=named)


def test_numbers_stand_side_by_side_with_difference_and_spreads() -> None:
    before = run({"model": "x"}, rate=100.0, rate_low=90.0, rate_high=110.0, only=None, tools__passed=9, tools__n=10)
    after = run({"model": "y"}, rate=150.0, rate_low=140.0, rate_high=160.0, tools__passed=20, tools__n=20)
    found = compare(before, after)
    assert found.difference.identity == ["model: x -> y"]
    assert [row.name for row in found.rows] == ["only", "rate", "tools rate"]
    only, rate, tools = found.rows
    assert (only.before, only.difference, only.share, only.is_apart) == (None, None, None, False)
    assert (rate.difference, rate.share, rate.is_apart) == (50.0, 0.5, True)
    assert (tools.before, tools.after) == (0.9, 1.0)
    assert tools.difference == pytest.approx(0.1)
    assert tools.spread_before == wilson(9, 10)
    assert not tools.is_apart


def test_a_number_says_where_it_lies_or_does_not() -> None:
    assert spread("x", {"x": 1, "x_min": 0, "x_max": 2}) == Interval(0.0, 2.0)
    assert spread("x", {"x": 1, "x_low": None, "x_high": 2}) is None
    assert spread("x.passed", {"x.passed": 1}) is None
