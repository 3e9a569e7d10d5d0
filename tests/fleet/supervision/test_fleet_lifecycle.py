"""Each pair of state and event is in the table, or is illegal and changes nothing."""

from __future__ import annotations

from itertools import product

import pytest

from stoker.fleet.supervision.lifecycle import TABLE, IllegalEvent, LifecycleEvent, LifecycleState, advance

ILLEGAL = {
    LifecycleState.STOPPED: {
        LifecycleEvent.PROVED,
        LifecycleEvent.STOP_ASKED,
        LifecycleEvent.EXITED,
        LifecycleEvent.GONE,
        LifecycleEvent.RELEASED,
        LifecycleEvent.SLEPT,
        LifecycleEvent.WOKEN,
    },
    LifecycleState.STARTING: {
        LifecycleEvent.LAUNCHED,
        LifecycleEvent.FOUND,
        LifecycleEvent.GONE,
        LifecycleEvent.SLEPT,
        LifecycleEvent.WOKEN,
    },
    LifecycleState.READY: {
        LifecycleEvent.LAUNCHED,
        LifecycleEvent.FOUND,
        LifecycleEvent.PROVED,
        LifecycleEvent.GONE,
        LifecycleEvent.WOKEN,
    },
    LifecycleState.ASLEEP: {
        LifecycleEvent.LAUNCHED,
        LifecycleEvent.FOUND,
        LifecycleEvent.PROVED,
        LifecycleEvent.GONE,
        LifecycleEvent.SLEPT,
        LifecycleEvent.RELEASED,
    },
    LifecycleState.STOPPING: {
        LifecycleEvent.LAUNCHED,
        LifecycleEvent.FOUND,
        LifecycleEvent.PROVED,
        LifecycleEvent.RELEASED,
        LifecycleEvent.SLEPT,
        LifecycleEvent.WOKEN,
    },
    LifecycleState.SWEEPING: {
        LifecycleEvent.LAUNCHED,
        LifecycleEvent.FOUND,
        LifecycleEvent.PROVED,
        LifecycleEvent.EXITED,
        LifecycleEvent.RELEASED,
        LifecycleEvent.SLEPT,
        LifecycleEvent.WOKEN,
    },
}


@pytest.mark.parametrize(("state", "event"), list(product(LifecycleState, LifecycleEvent)))
def test_every_pair_is_either_legal_or_declared_illegal(state: LifecycleState, event: LifecycleEvent) -> None:
    assert (event in TABLE[state]) != (event in ILLEGAL[state])
    if event in ILLEGAL[state]:
        with pytest.raises(IllegalEvent, match=f"{state.value} cannot have '{event.value}'"):
            advance(state, event)
    else:
        assert advance(state, event) is TABLE[state][event]


def walk(*events: LifecycleEvent) -> LifecycleState:
    state = LifecycleState.STOPPED
    for event in events:
        state = advance(state, event)
    return state


def test_a_serve_that_is_stopped_twice_while_it_starts_ends_stopped() -> None:
    assert (
        walk(
            LifecycleEvent.LAUNCHED,
            LifecycleEvent.STOP_ASKED,
            LifecycleEvent.STOP_ASKED,
            LifecycleEvent.EXITED,
            LifecycleEvent.GONE,
        )
        is LifecycleState.STOPPED
    )


def test_a_leader_that_ends_by_itself_leaves_a_group_to_sweep() -> None:
    assert walk(LifecycleEvent.FOUND, LifecycleEvent.PROVED, LifecycleEvent.EXITED) is LifecycleState.SWEEPING
    assert (
        walk(
            LifecycleEvent.FOUND,
            LifecycleEvent.PROVED,
            LifecycleEvent.EXITED,
            LifecycleEvent.STOP_ASKED,
            LifecycleEvent.GONE,
        )
        is LifecycleState.STOPPED
    )
