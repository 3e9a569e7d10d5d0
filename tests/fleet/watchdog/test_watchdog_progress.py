"""What counts as progress, and how long its absence is borne."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.engines.signals import Signals
from stoker.fleet.watchdog.probe import (
    NO_COUNTERS,
    WorkProgress,
    WorkSample,
    advance,
    stall_limit,
    without_progress,
)

BUSY = WorkSample(2, 1000, Signals(steps=5, kv_use=0.5, prompt_tokens=100, generated_tokens=50, running=2, queued=0))


def after(*looks: WorkSample) -> WorkProgress:
    """What looks one second apart, from second 0 on, come to."""
    progress: WorkProgress | None = None
    for now, work in enumerate(looks):
        progress = advance(progress, work, float(now))
    assert progress is not None
    return progress


@pytest.mark.parametrize(
    "now",
    [
        replace(BUSY, relayed=1001),
        replace(BUSY, relayed=0),  # counted anew
        *(
            replace(BUSY, counters=replace(BUSY.counters, **{name: 7.0}))
            for name in ("steps", "kv_use", "prompt_tokens", "generated_tokens")
        ),
    ],
)
def test_bytes_and_the_engines_counters_are_progress(now: WorkSample) -> None:
    progress = after(BUSY, now)
    assert progress.moved
    assert without_progress(progress, 1.0) == 0.0


@pytest.mark.parametrize(
    "now",
    [
        BUSY,
        replace(BUSY, in_flight=9),
        replace(BUSY, counters=replace(BUSY.counters, running=9.0, queued=9.0)),
        replace(BUSY, relayed=None, counters=NO_COUNTERS),
    ],
)
def test_new_arrivals_longer_queues_and_unknown_figures_are_no_progress(now: WorkSample) -> None:
    progress = after(BUSY, now)
    assert not progress.moved
    assert without_progress(progress, 1.0) == 1.0


def test_without_work_there_is_nothing_to_progress_and_the_time_starts_with_the_work() -> None:
    idle = replace(BUSY, in_flight=0)
    assert without_progress(after(BUSY, idle), 50.0) is None
    assert without_progress(after(BUSY, BUSY, idle, BUSY), 3.0) == 0.0
    assert without_progress(after(BUSY, BUSY, idle, BUSY, BUSY), 4.0) == 1.0


def test_a_look_without_counters_does_not_hide_that_nothing_moved_across_it() -> None:
    blind = replace(BUSY, relayed=None, counters=NO_COUNTERS)
    assert without_progress(after(BUSY, blind, BUSY), 2.0) == 2.0
    assert without_progress(after(BUSY, blind, replace(BUSY, relayed=1001)), 2.0) == 0.0


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        (Signals(steps=1, running=1), 120.0),
        (Signals(kv_use=0.1, queued=1), 120.0),
        (Signals(steps=1, running=0, queued=0), 360.0),
        (Signals(prompt_tokens=1, generated_tokens=1, running=1), 360.0),
        (Signals(steps=1), 360.0),
        (NO_COUNTERS, 360.0),
    ],
)
def test_an_engine_that_cannot_show_a_long_prompt_gets_three_times_the_patience(
    counters: Signals, expected: float
) -> None:
    assert stall_limit(120.0, counters) == expected
    assert stall_limit(120.0, counters, makes_media=True) == 1800.0  # silent until its image is drawn


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 2)), min_size=1, max_size=30))
def test_the_time_without_progress_is_never_longer_than_the_work(looks: list[tuple[int, int | None]]) -> None:
    progress = after(*(WorkSample(in_flight, relayed) for in_flight, relayed in looks))
    last = len(looks) - 1
    idle_for = without_progress(progress, float(last))
    if looks[-1][0] == 0:
        assert idle_for is None
        return
    quiet = next((at for at in range(last, -1, -1) if looks[at][0] == 0), -1)
    assert idle_for is not None
    assert 0 <= idle_for <= last - quiet - 1
