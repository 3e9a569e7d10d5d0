"""Each pair of state and event is in the table, or is illegal and changes nothing."""

from __future__ import annotations

from itertools import product

import pytest

from stoker.fleet.supervision.lifecycle import TABLE, Event, IllegalEvent, State, advance

ILLEGAL = {
    State.STOPPED: {Event.PROVED, Event.STOP_ASKED, Event.EXITED, Event.GONE, Event.RELEASED, Event.SLEPT, Event.WOKEN},
    State.STARTING: {Event.LAUNCHED, Event.FOUND, Event.GONE, Event.SLEPT, Event.WOKEN},
    State.READY: {Event.LAUNCHED, Event.FOUND, Event.PROVED, Event.GONE, Event.WOKEN},
    State.ASLEEP: {Event.LAUNCHED, Event.FOUND, Event.PROVED, Event.GONE, Event.SLEPT, Event.RELEASED},
    State.STOPPING: {Event.LAUNCHED, Event.FOUND, Event.PROVED, Event.RELEASED, Event.SLEPT, Event.WOKEN},
    State.SWEEPING: {Event.LAUNCHED, Event.FOUND, Event.PROVED, Event.EXITED, Event.RELEASED, Event.SLEPT, Event.WOKEN},
}


@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_pair_is_either_legal_or_declared_illegal(state: State, event: Event) -> None:
    assert (event in TABLE[state]) != (event in ILLEGAL[state])
    if event in ILLEGAL[state]:
        with pytest.raises(IllegalEvent, match=f"{state.value} cannot have '{event.value}'"):
            advance(state, event)
    else:
        assert advance(state, event) is TABLE[state][event]


def walk(*events: Event) -> State:
    state = State.STOPPED
    for event in events:
        state = advance(state, event)
    return state


def test_a_serve_that_is_stopped_twice_while_it_starts_ends_stopped() -> None:
    assert walk(Event.LAUNCHED, Event.STOP_ASKED, Event.STOP_ASKED, Event.EXITED, Event.GONE) is State.STOPPED


def test_a_leader_that_ends_by_itself_leaves_a_group_to_sweep() -> None:
    assert walk(Event.FOUND, Event.PROVED, Event.EXITED) is State.SWEEPING
    assert walk(Event.FOUND, Event.PROVED, Event.EXITED, Event.STOP_ASKED, Event.GONE) is State.STOPPED
