"""Time moves when a test says so."""

from __future__ import annotations

import pytest

from stoker.domain.protocols import Clock
from stoker_lab.testing.clock import FakeClock


def test_both_times_move_together_and_only_by_word() -> None:
    fake = FakeClock(now=5.0, wall=100.0)
    clock: Clock = fake
    assert (clock.now(), clock.wall()) == (5.0, 100.0)
    assert (clock.now(), clock.wall()) == (5.0, 100.0)
    fake.advance(2.5)
    assert (clock.now(), clock.wall()) == (7.5, 102.5)


def test_time_does_not_go_back() -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="time does not go back"):
        clock.advance(-0.1)
    assert clock.now() == 0.0
