"""The breaker of a tier, under a clock that the test moves."""

from __future__ import annotations

from stoker.request.decide.breaker import Breaker, State


def opened(at: float = 0.0) -> Breaker:
    breaker = Breaker(failures=3, window=30, cool_down=20)
    for _ in range(3):
        breaker.on_fault(at)
    return breaker


def test_it_opens_after_so_many_faults_in_a_row_within_the_window() -> None:
    breaker = Breaker(failures=3, window=30, cool_down=20)
    breaker.on_fault(0)
    breaker.on_fault(1)
    assert (breaker.state, breaker.is_shut(1)) == (State.CLOSED, False)
    breaker.on_fault(2)
    assert (breaker.state, breaker.is_shut(2)) == (State.OPEN, True)


def test_faults_that_lie_far_apart_or_have_a_success_between_them_open_nothing() -> None:
    breaker = Breaker(failures=3, window=30, cool_down=20)
    for now in (0, 20, 40, 60):
        breaker.on_fault(now)
    assert breaker.state is State.CLOSED
    for now in (61, 62):
        breaker.on_fault(now)
        breaker.on_served(now)
    assert breaker.state is State.CLOSED


def test_after_the_cool_down_one_request_is_the_probe_and_the_others_still_stay_away() -> None:
    """Behaviour 49, first half."""
    breaker = opened()
    assert not breaker.is_shut(20)
    assert breaker.state is State.OPEN, "looking is no probe"
    breaker.on_sent(20)
    assert (breaker.state, breaker.is_shut(21)) == (State.HALF_OPEN, True)
    breaker.on_sent(21)
    breaker.on_served(22)
    assert (breaker.state, breaker.is_shut(22)) == (State.CLOSED, False)


def test_a_probe_that_fails_opens_it_again_for_as_long() -> None:
    breaker = opened()
    breaker.on_sent(20)
    breaker.on_fault(25)
    assert (breaker.state, breaker.is_shut(44), breaker.is_shut(45)) == (State.OPEN, True, False)


def test_a_lost_probe_wedges_nothing() -> None:
    """Behaviour 49, second half: nothing is ever heard of it."""
    breaker = opened()
    breaker.on_sent(20)
    assert breaker.is_shut(39)
    assert not breaker.is_shut(40)
    breaker.on_sent(40)
    assert breaker.is_shut(59)
    breaker.on_served(41)
    assert breaker.state is State.CLOSED


def test_a_request_sent_while_it_is_closed_changes_nothing() -> None:
    breaker = Breaker()
    breaker.on_sent(5)
    assert breaker.state is State.CLOSED
    breaker.on_fault(6)
    breaker.on_served(7)
    assert breaker.state is State.CLOSED


def test_faults_of_requests_that_were_already_under_way_do_not_prolong_it() -> None:
    breaker = opened()
    breaker.on_fault(19)
    assert not breaker.is_shut(20)
