"""A quantity has a unit, and what is shown reads back to the same value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.units import parse_duration, parse_size, show_duration, show_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45.0), ("500ms", 0.5), ("10m", 600.0), ("2h", 7200.0), ("0s", 0.0), ("1.5h", 5400.0), ("0.1s", 0.1)],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32MiB", 32 * 2**20),
        ("18GiB", 18 * 2**30),
        ("1.5GB", 1_500_000_000),
        ("7 KB", 7000),
        ("12B", 12),
        ("2TiB", 2**41),
    ],
)
def test_a_size_is_bytes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("bare", [30, 2.5, "30", True, [], "", "-3s", "3 s s", "s", "١s", "1e3s"])
def test_a_number_without_a_unit_is_refused_and_the_units_are_named(bare: object) -> None:
    with pytest.raises(ValueError, match=r'"45s"'):
        parse_duration(bare)
    with pytest.raises(ValueError, match=r'"32MiB"'):
        parse_size(bare)


def test_a_unit_in_the_wrong_case_gets_the_right_one() -> None:
    with pytest.raises(ValueError, match=r"did you mean '30GiB'"):
        parse_size("30 gib")
    with pytest.raises(ValueError, match=r"did you mean '5ms'"):
        parse_duration("5MS")


def test_absurd_quantities_are_refused_before_they_overflow() -> None:
    with pytest.raises(ValueError, match="366 days"):
        parse_duration("9" * 30 + "h")
    with pytest.raises(ValueError, match="1 EiB"):
        parse_size("9" * 30 + "TiB")
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration("9" * 4000 + "h")


@given(st.integers(0, 366 * 24 * 3_600_000))
def test_durations_round_trip(milliseconds: int) -> None:
    assert parse_duration(show_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.floats(0, 1e7, allow_subnormal=False).filter(lambda x: x == 0 or x > 1e-12))
def test_any_seconds_round_trip(seconds: float) -> None:
    assert parse_duration(show_duration(seconds)) == seconds


@given(st.integers(0, 2**60))
def test_sizes_round_trip(size: int) -> None:
    assert parse_size(show_size(size)) == size


def test_what_is_shown_is_short() -> None:
    assert [show_duration(x) for x in (0, 0.5, 45, 600, 7200)] == ["0s", "500ms", "45s", "10m", "2h"]
    assert [show_size(x) for x in (0, 32 * 2**20, 1_500_000_000, 2**30 + 1)] == ["0B", "32MiB", "1500MB", "1073741825B"]
