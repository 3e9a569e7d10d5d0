"""The table of a serve's phases is complete, and an event that it does not list changes nothing."""

from __future__ import annotations

import pytest

from stoker.domain.serve import Serve, Slot
from stoker.request.lease.phases import TABLE, IllegalPhaseEvent, PhaseEvent, ServePhase, next_phase
from stoker.request.lease.state import ServeState, SlotState

ILLEGAL = [(phase, event) for phase in ServePhase for event in PhaseEvent if event not in TABLE[phase]]


def test_every_phase_is_in_the_table_and_can_be_left_and_reached() -> None:
    assert set(TABLE) == set(ServePhase)
    assert {phase for row in TABLE.values() for phase in row.values()} == set(ServePhase)
    assert {event for row in TABLE.values() for event in row} == set(PhaseEvent)


@pytest.mark.parametrize(("phase", "event"), ILLEGAL)
def test_an_event_that_is_not_listed_raises_and_changes_nothing(phase: ServePhase, event: PhaseEvent) -> None:
    state = ServeState(Serve("a"), SlotState(Slot("gpu")), phase=phase)
    with pytest.raises(IllegalPhaseEvent, match=phase.value):
        state.apply(event)
    assert state.phase is phase


def test_only_a_ready_serve_becomes_a_victim() -> None:
    victims = [phase for phase in ServePhase if PhaseEvent.STOP_DECIDED in TABLE[phase]]
    assert victims == [ServePhase.READY]


def test_a_swap_takes_its_target_and_its_victim_through_these_phases() -> None:
    target, victim = ServePhase.STOPPED, ServePhase.READY
    target, victim = (
        next_phase(target, PhaseEvent.START_DECIDED),
        next_phase(victim, PhaseEvent.STOP_DECIDED),
    )
    assert (target, victim) == (ServePhase.STARTING, ServePhase.DRAINING)
    victim = next_phase(victim, PhaseEvent.DRAINED)
    assert victim is ServePhase.STOPPING
    assert (next_phase(target, PhaseEvent.PROVED), next_phase(victim, PhaseEvent.ENDED)) == (
        ServePhase.READY,
        ServePhase.STOPPED,
    )
