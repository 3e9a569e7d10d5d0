"""How long a tier may take for the first byte of its answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.request.decide.first_byte import LEAST, MIN_SEEN, FirstByteTimes, first_byte_timeout


def test_what_the_tier_says_counts_for_every_request_and_zero_is_no_limit() -> None:
    for streams in (True, False):
        assert first_byte_timeout(2.5, 60.0, 60.0, 100_000, 4096, streams) == 2.5
        assert first_byte_timeout(0.0, None, None, 0, None, streams) is None


def test_unmeasured_it_is_thirty_seconds_and_the_time_to_read_the_prompt() -> None:
    assert first_byte_timeout(None, None, None, 0, None, True) == 30.0
    assert first_byte_timeout(None, None, None, 50_000, None, True) == 130.0


def test_measured_it_follows_the_tiers_own_time_to_the_first_byte_before_the_profiles_latency() -> None:
    assert first_byte_timeout(None, 20.0, 400.0, 0, None, True) == 100.0
    assert first_byte_timeout(None, None, 20.0, 0, None, True) == 100.0
    assert first_byte_timeout(None, 0.2, 400.0, 0, None, True) == 30.0


def test_an_answer_in_one_piece_shows_its_first_byte_at_its_end() -> None:
    assert first_byte_timeout(None, None, None, 0, 2000, False) == 130.0
    assert first_byte_timeout(None, None, None, 0, None, False) == 81.2


def test_a_few_answers_say_nothing_and_one_slow_one_among_many_does_not_count() -> None:
    pace = FirstByteTimes()
    for _ in range(MIN_SEEN - 1):
        pace.add(1.0)
    assert pace.usual is None
    for _ in range(20):
        pace.add(1.0)
    pace.add(100.0)
    assert pace.usual == 1.0


@given(
    st.none() | st.floats(0, 1e4), st.none() | st.floats(0, 1e4),
    st.integers(0, 10**6), st.none() | st.integers(0, 10**6), st.booleans(),
)  # fmt: skip
def test_by_itself_it_is_never_less_than_thirty_seconds(
    usual: float | None, latency: float | None, prompt: int, output: int | None, streams: bool
) -> None:
    found = first_byte_timeout(None, usual, latency, prompt, output, streams)
    assert found is not None
    assert found >= LEAST
