"""The table of a serve's life: complete, legal by declaration, and what holds of every life by it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.lease import Target
from stoker.domain.serve import Serve, Slot
from stoker.domain.serve_phase import (
    FLEET_EVENTS,
    SCHEDULER_EVENTS,
    TABLE,
    IllegalEvent,
    ServeEvent,
    ServePhase,
    next_phase,
)  # fmt: skip
from stoker.fleet.supervision.managed_serve import ManagedServe
from stoker.request.lease.state import ServeState, SlotState

E, P = ServeEvent, ServePhase
LEGAL = {
    P.STOPPED: {E.STARTED},
    P.STARTING: {E.PROVED, E.CALLED_OFF, E.STOP_BEGUN, E.EXITED, E.GONE, E.RELEASED},
    P.READY: {E.STOP_DECIDED, E.SLEPT, E.STOP_BEGUN, E.EXITED, E.GONE, E.RELEASED},
    P.DRAINING: {E.CALLED_OFF, E.STOP_BEGUN, E.GONE},
    P.ASLEEP: {E.WOKEN, E.STOP_BEGUN, E.EXITED},
    P.STOPPING: {E.CALLED_OFF, E.STOP_BEGUN, E.EXITED, E.GONE},
    P.SWEEPING: {E.STOP_BEGUN, E.GONE},
}
LIVES = st.lists(st.sampled_from(list(E)), max_size=40)


def life(events: list[ServeEvent]) -> list[tuple[ServePhase, ServeEvent, ServePhase]]:
    """The steps of a serve to which these events happen, without those that are illegal."""
    phase, steps = P.STOPPED, []
    for event in events:
        if event in TABLE[phase]:
            steps.append((phase, event, TABLE[phase][event]))
            phase = steps[-1][2]
    return steps


SIDES = {
    "scheduler": ({E.STARTED, E.PROVED, E.STOP_DECIDED, E.CALLED_OFF, E.STOP_BEGUN, E.GONE}, SCHEDULER_EVENTS),
    "fleet": (set(E) - {E.STOP_DECIDED, E.CALLED_OFF}, FLEET_EVENTS),
}


def holder(side: str, phase: ServePhase) -> ServeState | ManagedServe:
    if side == "fleet":
        return ManagedServe(Serve("a"), lambda name, why: None, Target("127.0.0.1", 1), 0, 0, phase=phase)
    return ServeState(Serve("a"), SlotState(Slot("gpu")), phase=phase)


@pytest.mark.parametrize(("side", "phase", "event"), list(product(SIDES, P, E)))
def test_every_event_is_legal_as_declared_or_raises_and_changes_nothing(
    side: str, phase: ServePhase, event: ServeEvent
) -> None:
    assert (event in TABLE[phase]) == (event in LEGAL[phase])
    own, declared = SIDES[side]
    assert declared == own
    state = holder(side, phase)
    if event in LEGAL[phase] & own:
        state.apply(event)
        assert state.phase is TABLE[phase][event]
    else:
        with pytest.raises(IllegalEvent, match=f"'{event.value}' is not allowed in phase '{phase.value}'"):
            state.apply(event)
        assert state.phase is phase


@given(LIVES)
def test_a_serve_is_ready_only_once_it_was_proved_or_because_its_stop_was_called_off(events: list[ServeEvent]) -> None:
    proved = False
    for _, event, phase in life(events):
        proved = phase is not P.STOPPED and event is not E.WOKEN and (proved or event is E.PROVED)
        assert phase is not P.READY or proved


@given(LIVES)
def test_only_a_ready_serve_becomes_a_victim_or_sleeps(events: list[ServeEvent]) -> None:
    for before, _, phase in life(events):
        if phase in (P.DRAINING, P.ASLEEP) and phase is not before:
            assert before is P.READY


@given(LIVES)
def test_an_engine_that_died_never_answers_again_before_a_new_start(events: list[ServeEvent]) -> None:
    dead = False
    for _, event, phase in life(events):
        dead = phase is not P.STOPPED and (dead or phase is P.SWEEPING)
        assert not dead or phase is P.SWEEPING, event


@given(LIVES)
def test_whatever_happened_a_serve_can_end_and_start_again(events: list[ServeEvent]) -> None:
    phase = (life(events) or [(P.STOPPED, E.GONE, P.STOPPED)])[-1][2]
    if phase is not P.STOPPED:
        phase = TABLE[TABLE[phase][E.STOP_BEGUN]][E.GONE]
    assert TABLE[phase][E.STARTED] is P.STARTING


def test_a_stop_that_is_asked_for_twice_joins_the_first() -> None:
    phase = P.STOPPED
    for event in (E.STARTED, E.STOP_BEGUN, E.STOP_BEGUN, E.EXITED, E.GONE):
        phase = next_phase(phase, event, FLEET_EVENTS)
    assert phase is P.STOPPED
