"""How long the first byte of an answer may take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.request.decide.first_byte import (
    LEAST,
    LEAST_BESIDE_ANOTHER,
    MIN_SEEN,
    MOST,
    UNMEASURED,
    FirstByteTimes,
    first_byte_timeout,
    next_tier_after,
)


def test_what_the_file_says_counts_for_every_request_and_zero_is_no_limit() -> None:
    for streams in (True, False):
        assert next_tier_after(2.5, 60.0, 60.0, 100_000, 4096, streams) == 2.5
        assert next_tier_after(0.0, None, None, 0, None, streams) is None
        assert first_byte_timeout(2.5, 60.0, 100_000, 4096, streams) == 2.5
        assert first_byte_timeout(0.0, None, 0, None, streams) is None


class TestWhileAnotherTierIsLeft:
    def test_unmeasured_it_is_thirty_seconds_and_the_time_to_read_the_prompt(self) -> None:
        assert next_tier_after(None, None, None, 0, None, True) == 30.0
        assert next_tier_after(None, None, None, 50_000, None, True) == 130.0

    def test_measured_it_follows_the_serves_own_time_to_the_first_byte_before_the_profiles_latency(self) -> None:
        assert next_tier_after(None, 20.0, 400.0, 0, None, True) == 100.0
        assert next_tier_after(None, None, 20.0, 0, None, True) == 100.0
        assert next_tier_after(None, 0.2, 400.0, 0, None, True) == 30.0

    def test_an_answer_in_one_piece_shows_its_first_byte_at_its_end(self) -> None:
        assert next_tier_after(None, None, None, 0, 2000, False) == 130.0
        assert next_tier_after(None, None, None, 0, None, False) == 81.2


class TestWhenNoOtherTierIsLeft:
    def test_unmeasured_the_serve_has_time_to_load_its_model_first(self) -> None:
        assert first_byte_timeout(None, None, 0, None, True) == UNMEASURED == 120.0

    @pytest.mark.parametrize(("usual", "seconds"), [(0.2, 60.0), (12.0, 60.0), (20.0, 100.0)])
    def test_measured_it_is_five_times_the_usual_time_and_never_less_than_a_minute(
        self, usual: float, seconds: float
    ) -> None:
        assert first_byte_timeout(None, usual, 0, None, True) == seconds

    def test_the_prompt_and_an_answer_in_one_piece_add_at_most_ten_minutes_each(self) -> None:
        assert first_byte_timeout(None, 1.0, 50_000, 1000, True) == 160.0
        assert first_byte_timeout(None, 1.0, 50_000, 1000, False) == 210.0
        assert first_byte_timeout(None, 1.0, 10**9, 10**9, False) == LEAST + 2 * MOST


def test_a_few_answers_say_nothing_and_one_slow_one_among_many_does_not_count() -> None:
    times = FirstByteTimes()
    for _ in range(MIN_SEEN - 1):
        times.streamed.append(1.0)
    assert times.usual() is None
    for _ in range(20):
        times.streamed.append(1.0)
    times.streamed.append(100.0)
    assert times.usual() == 1.0


def test_answers_in_one_piece_have_times_of_their_own() -> None:
    times = FirstByteTimes()
    for _ in range(MIN_SEEN):
        times.whole.append(40.0)
    assert (times.usual(streams=True), times.usual(streams=False)) == (None, 40.0)


@given(
    st.none() | st.floats(0, 1e4), st.none() | st.floats(0, 1e4),
    st.integers(0, 10**6), st.none() | st.integers(0, 10**6), st.booleans(),
)  # fmt: skip
def test_by_itself_it_is_never_less_than_thirty_seconds_and_a_minute(
    usual: float | None, latency: float | None, prompt: int, output: int | None, streams: bool
) -> None:
    first, last = (
        next_tier_after(None, usual, latency, prompt, output, streams),
        first_byte_timeout(None, usual, prompt, output, streams),
    )
    assert first is not None
    assert last is not None
    assert first >= LEAST_BESIDE_ANOTHER
    assert last >= LEAST
