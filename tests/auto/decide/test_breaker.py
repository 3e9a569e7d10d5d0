"""The breaker of a tier, under a clock that the test moves."""

from __future__ import annotations

from stoker_auto.decide.breaker import LONGEST_PAUSE, Breaker, BreakerState


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(failures=3, window=30, cool_down=20)
    for _ in range(3):
        breaker.on_fault(at)
    return breaker


def test_it_opens_after_so_many_faults_in_a_row_within_the_window() -> None:
    breaker = Breaker(failures=3, window=30, cool_down=20)
    breaker.on_fault(0)
    breaker.on_fault(1)
    assert (breaker.state, breaker.blocks_requests(1)) == (BreakerState.CLOSED, False)
    breaker.on_fault(2)
    assert (breaker.state, breaker.blocks_requests(2)) == (BreakerState.OPEN, True)


def test_faults_that_lie_far_apart_or_have_a_success_between_them_open_nothing() -> None:
    breaker = Breaker(failures=3, window=30, cool_down=20)
    for now in (0, 20, 40, 60):
        breaker.on_fault(now)
    assert breaker.state is BreakerState.CLOSED
    for now in (61, 62):
        breaker.on_fault(now)
        breaker.on_served(now)
    assert breaker.state is BreakerState.CLOSED


def test_after_the_cool_down_one_request_is_the_probe_and_the_others_still_stay_away() -> None:
    """Behaviour 49, first half."""
    breaker = opened()
    assert not breaker.blocks_requests(20)
    assert breaker.state is BreakerState.OPEN, "looking is no probe"
    breaker.on_sent(20)
    assert (breaker.state, breaker.blocks_requests(21)) == (BreakerState.HALF_OPEN, True)
    breaker.on_sent(21)
    breaker.on_served(22)
    assert (breaker.state, breaker.blocks_requests(22)) == (BreakerState.CLOSED, False)


def test_a_probe_that_fails_opens_it_again_for_as_long() -> None:
    breaker = opened()
    breaker.on_sent(20)
    breaker.on_fault(25)
    assert (breaker.state, breaker.blocks_requests(44), breaker.blocks_requests(45)) == (BreakerState.OPEN, True, False)


def test_a_lost_probe_wedges_nothing() -> None:
    """Behaviour 49, second half: nothing is ever heard of it."""
    breaker = opened()
    breaker.on_sent(20)
    assert breaker.blocks_requests(39)
    assert not breaker.blocks_requests(40)
    breaker.on_sent(40)
    assert breaker.blocks_requests(59)
    breaker.on_served(41)
    assert breaker.state is BreakerState.CLOSED


def test_a_request_sent_while_it_is_closed_changes_nothing() -> None:
    breaker = Breaker()
    breaker.on_sent(5)
    assert breaker.state is BreakerState.CLOSED
    breaker.on_fault(6)
    breaker.on_served(7)
    assert breaker.state is BreakerState.CLOSED


def test_faults_of_requests_that_were_already_under_way_do_not_prolong_it() -> None:
    breaker = opened()
    breaker.on_fault(19)
    assert not breaker.blocks_requests(20)


def test_a_tier_that_hangs_opens_it_at_once_and_a_probe_that_hangs_opens_it_again() -> None:
    breaker = Breaker(failures=3, window=30, cool_down=20)
    breaker.on_hang(0)
    assert (breaker.state, breaker.blocks_requests(19), breaker.blocks_requests(20)) == (BreakerState.OPEN, True, False)
    breaker.on_sent(20)
    breaker.on_hang(50)
    assert (breaker.state, breaker.blocks_requests(60)) == (BreakerState.OPEN, True)


def test_a_pause_that_the_tier_asks_for_ends_when_it_said_whatever_comes_meanwhile() -> None:
    breaker = Breaker()
    assert (breaker.pause(0), breaker.visible_state(0)) == (0, BreakerState.CLOSED)
    breaker.on_pause(0, 30, 429)
    breaker.on_served(1)
    assert (breaker.pause(10), breaker.visible_state(10), breaker.state) == (
        20,
        BreakerState.RATE_LIMITED,
        BreakerState.CLOSED,
    )
    assert (breaker.pause(30), breaker.visible_state(30)) == (0, BreakerState.CLOSED)


def test_of_two_pauses_the_later_end_counts_and_none_is_longer_than_an_hour() -> None:
    breaker = Breaker()
    breaker.on_pause(0, 30, 429)
    breaker.on_pause(1, 5, 503)
    assert (breaker.pause(1), breaker.pause_status) == (29, 429)
    breaker.on_pause(1, 1e9, 503)
    assert (breaker.pause(1), breaker.pause_status) == (LONGEST_PAUSE, 503)
    for nothing in (0, -5):
        other = Breaker()
        other.on_pause(7, nothing, 429)
        assert other.pause(7) == 0
