"""The life of a serve, as one table. docs/how-it-works/life-of-a-swap.md draws it.

The scheduler and the fleet both hold a serve's phase by this table: the scheduler that of the serve in its slot, by
what was decided and reported; the fleet that of the process. Only the scheduler lets a serve drain. One that sleeps, or
whose remains are swept away, holds nothing of its slot: for the scheduler it is stopped.

Two rules. A phase changes only through `next_phase`. An event that the table does not list for a phase, or that is
none of the side that holds the phase, is illegal: it raises, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class ServePhase(Enum):
    """What a serve is doing. One that is STARTING is never a victim."""

    STOPPED = "stopped"
    STARTING = "starting"
    """It is the target of a swap, whose victims may still drain; then it runs, and is not proved ready yet."""
    READY = "ready"
    DRAINING = "draining"
    """It is a victim: nothing new is admitted, and running requests get their time."""
    ASLEEP = "asleep"
    """It runs and holds no memory of its slot: its weights are in host memory, or dropped."""
    STOPPING = "stopping"
    SWEEPING = "sweeping"
    """Its main process exited unasked; the rest of its process group is being killed."""


class ServeEvent(Enum):
    STARTED = "started"
    """Its start was decided, it was launched, or an earlier run of Stoker left it running."""
    PROVED = "proved"
    STOP_DECIDED = "stop_decided"
    """It becomes a victim."""
    CALLED_OFF = "called_off"
    """The swap will not happen: no request waits for the target any more, or it cannot start."""
    SLEPT = "slept"
    """It was put to sleep, and was seen to free its memory."""
    WOKEN = "woken"
    """It was asked to wake; it is not proved ready yet."""
    STOP_BEGUN = "stop_begun"
    """Its requests ended or were cut, and it is asked to end."""
    EXITED = "exited"
    """Its main process exited, or an external serve stopped answering."""
    GONE = "gone"
    """Nothing of it is left: it was stopped, exited, or did not start."""
    RELEASED = "released"
    """Stoker no longer watches it; it goes on running."""


SCHEDULER_EVENTS = frozenset((
    ServeEvent.STARTED, ServeEvent.PROVED, ServeEvent.STOP_DECIDED, ServeEvent.CALLED_OFF, ServeEvent.STOP_BEGUN,
    ServeEvent.GONE,
))  # fmt: skip
FLEET_EVENTS = frozenset((
    ServeEvent.STARTED, ServeEvent.PROVED, ServeEvent.SLEPT, ServeEvent.WOKEN, ServeEvent.STOP_BEGUN,
    ServeEvent.EXITED, ServeEvent.GONE, ServeEvent.RELEASED,
))  # fmt: skip


class IllegalEvent(ValueError):
    """A bug in Stoker: this must not happen in that phase."""

    def __init__(self, phase: ServePhase, event: ServeEvent) -> None:
        super().__init__(f"a bug in Stoker: event '{event.value}' is not allowed in phase '{phase.value}'")
        self.phase = phase
        self.event = event


TABLE: Mapping[ServePhase, Mapping[ServeEvent, ServePhase]] = {
    ServePhase.STOPPED: {ServeEvent.STARTED: ServePhase.STARTING},
    ServePhase.STARTING: {
        ServeEvent.PROVED: ServePhase.READY,
        ServeEvent.STOP_BEGUN: ServePhase.STOPPING,
        ServeEvent.EXITED: ServePhase.SWEEPING,
        ServeEvent.CALLED_OFF: ServePhase.STOPPED,
        ServeEvent.GONE: ServePhase.STOPPED,
        ServeEvent.RELEASED: ServePhase.STOPPED,  # found, then left alone: adopting was cancelled
    },
    ServePhase.READY: {
        ServeEvent.STOP_DECIDED: ServePhase.DRAINING,
        ServeEvent.SLEPT: ServePhase.ASLEEP,
        ServeEvent.STOP_BEGUN: ServePhase.STOPPING,
        ServeEvent.EXITED: ServePhase.SWEEPING,
        ServeEvent.GONE: ServePhase.STOPPED,
        ServeEvent.RELEASED: ServePhase.STOPPED,
    },
    ServePhase.DRAINING: {
        ServeEvent.STOP_BEGUN: ServePhase.STOPPING,
        ServeEvent.CALLED_OFF: ServePhase.READY,
        ServeEvent.GONE: ServePhase.STOPPED,
    },
    ServePhase.ASLEEP: {
        ServeEvent.WOKEN: ServePhase.STARTING,
        ServeEvent.STOP_BEGUN: ServePhase.STOPPING,
        ServeEvent.EXITED: ServePhase.SWEEPING,
    },
    # A second stop joins the first. The main process exited as asked; its group may still run.
    ServePhase.STOPPING: {
        ServeEvent.STOP_BEGUN: ServePhase.STOPPING,
        ServeEvent.EXITED: ServePhase.STOPPING,
        ServeEvent.CALLED_OFF: ServePhase.READY,
        ServeEvent.GONE: ServePhase.STOPPED,
    },
    ServePhase.SWEEPING: {ServeEvent.STOP_BEGUN: ServePhase.SWEEPING, ServeEvent.GONE: ServePhase.STOPPED},
}


def next_phase(phase: ServePhase, event: ServeEvent, events: frozenset[ServeEvent]) -> ServePhase:
    """The phase after `event`. `events`: those of the side that holds the phase. Raises IllegalEvent."""
    following = TABLE[phase].get(event) if event in events else None
    if following is None:
        raise IllegalEvent(phase, event)
    return following
