"""The phases of a serve in its slot, as one table. docs/how-it-works/life-of-a-swap.md draws it.

Two rules. The phase of a serve changes only through `next_phase`. An event that the table does not list for a phase is
illegal: it raises, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ServePhase(Enum):
    """What a serve is doing in its slot. A serve that is STARTING is never a victim."""

    STOPPED = "stopped"
    STARTING = "starting"
    """It is the target of a swap; the victims may still drain."""
    READY = "ready"
    DRAINING = "draining"
    """It is a victim: nothing new is admitted, and running requests get their time."""
    STOPPING = "stopping"


class PhaseEvent(Enum):
    START_DECIDED = "start_decided"
    STOP_DECIDED = "stop_decided"
    DRAINED = "drained"
    """Its requests ended, or were cut."""
    CALLED_OFF = "called_off"
    """The swap will not happen: no request waits for the target any more, or it cannot start."""
    PROVED = "proved"
    ADOPTED = "adopted"
    """An earlier run of Stoker left it running."""
    ENDED = "ended"
    """It was stopped, exited, or did not start."""


class IllegalPhaseEvent(ValueError):
    """A bug in Stoker: this must not happen in that phase."""

    def __init__(self, phase: ServePhase, event: PhaseEvent) -> None:
        super().__init__(f"a bug in Stoker: event '{event.value}' is not allowed in phase '{phase.value}'")
        self.phase = phase
        self.event = event


TABLE: Mapping[ServePhase, Mapping[PhaseEvent, ServePhase]] = {
    ServePhase.STOPPED: {
        PhaseEvent.START_DECIDED: ServePhase.STARTING,
        PhaseEvent.ADOPTED: ServePhase.READY,
        PhaseEvent.ENDED: ServePhase.STOPPED,  # `give_up_start` called its start off, then marks it stopped
    },
    ServePhase.STARTING: {
        PhaseEvent.PROVED: ServePhase.READY,
        PhaseEvent.CALLED_OFF: ServePhase.STOPPED,
        PhaseEvent.ENDED: ServePhase.STOPPED,
    },
    ServePhase.READY: {PhaseEvent.STOP_DECIDED: ServePhase.DRAINING, PhaseEvent.ENDED: ServePhase.STOPPED},
    ServePhase.DRAINING: {
        PhaseEvent.DRAINED: ServePhase.STOPPING,
        PhaseEvent.CALLED_OFF: ServePhase.READY,
        PhaseEvent.ENDED: ServePhase.STOPPED,
    },
    ServePhase.STOPPING: {PhaseEvent.CALLED_OFF: ServePhase.READY, PhaseEvent.ENDED: ServePhase.STOPPED},
}


def next_phase(phase: ServePhase, event: PhaseEvent) -> ServePhase:
    """The phase after `event`. Raises IllegalPhaseEvent."""
    try:
        return TABLE[phase][event]
    except KeyError:
        raise IllegalPhaseEvent(phase, event) from None
