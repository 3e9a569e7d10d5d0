"""Conditions of a gate: what may be written, and what it means."""

from __future__ import annotations

import pytest

from stoker.domain.gate import condition
from stoker.domain.run import RunKind


@pytest.mark.parametrize(
    ("text", "metric", "value", "holds", "fails"),
    [
        ("ttft_p95 < 2s", "ttft_p95", 2.0, 1.9, 2.0),
        ("ttft_p95<=250ms", "ttft_p95", 0.25, 0.25, 0.26),
        ("tool-use.lower >= 0.85", "tool-use.lower", 0.85, 0.85, 0.84),
        ("goodput >= 90%", "goodput", 0.9, 0.95, 0.89),
        ("memory < 18GiB", "memory", 18 * 2.0**30, 1e9, 2e10),
        ("requests_failed == 0", "requests_failed", 0.0, 0, 1),
        ("output_rate > 20", "output_rate", 20.0, 20.1, 20.0),
    ],
)
def test_a_number_is_compared_in_its_unit(text: str, metric: str, value: float, holds: float, fails: float) -> None:
    found = condition(f"  {text} ")
    assert (found.text, found.metric, found.value, found.measurement) == (text, metric, value, None)
    assert found.holds(holds)
    assert not found.holds(fails)


@pytest.mark.parametrize("kind", [RunKind.PREFLIGHT, RunKind.CANARY, RunKind.SOAK])
def test_one_word_is_a_measurement_that_passes_as_a_whole(kind: RunKind) -> None:
    assert condition(kind.value).measurement is kind


def test_a_bound_names_its_rate() -> None:
    assert condition("needle.lower >= 0.9").rate == "needle"
    assert condition("needle.upper < 1").rate == "needle"
    assert condition("needle.passed >= 3").rate == ""
    assert condition("ttft_p95 < 2s").rate == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("benchmark", "of one word"),
        ("ttft_p95", "of one word"),
        ("ttft_p95 <", "is not a condition"),
        ("ttft_p95 != 2s", "is not a condition"),
        ("ttft < 2 s", "is not a condition"),
        ("TTFT < 2s", "is not a condition"),
        ("ttft < 2h", "not a number with a known unit"),
        ("ttft < soon", "not a number with a known unit"),
        ("", "is not a condition"),
    ],
)
def test_what_is_no_condition_says_what_is_expected(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        condition(text)
