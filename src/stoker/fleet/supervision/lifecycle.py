"""The life of one managed serve, as one table.

Two rules. The state of a serve changes only through `advance`. An event that the table does not list for a state is
illegal: it raises, and nothing changes.
"""

from __future__ import annotations

from enum import Enum


class LifecycleState(Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    """It runs, started or found by Stoker, and is not proved ready yet."""
    READY = "ready"
    ASLEEP = "asleep"
    """It runs and holds no memory of its slot: its weights are in host memory, or dropped."""
    STOPPING = "stopping"
    """Stoker asked it to end."""
    SWEEPING = "sweeping"
    """Its main process exited unasked; the rest of its process group is being killed."""


class LifecycleEvent(Enum):
    LAUNCHED = "launched"
    FOUND = "found"
    """An earlier run of Stoker left it running."""
    PROVED = "proved"
    SLEPT = "slept"
    """It was put to sleep, and was seen to free its memory."""
    WOKEN = "woken"
    """It was asked to wake; it is not proved ready yet."""
    STOP_ASKED = "stop_asked"
    EXITED = "exited"
    """Its main process exited, or an external serve stopped answering."""
    GONE = "gone"
    """No process of it is left."""
    RELEASED = "released"
    """Stoker no longer watches it; it goes on running."""


class IllegalEvent(Exception):
    """A bug: this event must not occur in that state."""

    def __init__(self, state: LifecycleState, event: LifecycleEvent) -> None:
        super().__init__(f"a serve that is {state.value} cannot have '{event.value}' happen to it")
        self.state = state
        self.event = event


TABLE: dict[LifecycleState, dict[LifecycleEvent, LifecycleState]] = {
    LifecycleState.STOPPED: {
        LifecycleEvent.LAUNCHED: LifecycleState.STARTING,
        LifecycleEvent.FOUND: LifecycleState.STARTING,
    },
    LifecycleState.STARTING: {
        LifecycleEvent.PROVED: LifecycleState.READY,
        LifecycleEvent.STOP_ASKED: LifecycleState.STOPPING,
        LifecycleEvent.EXITED: LifecycleState.SWEEPING,
        LifecycleEvent.RELEASED: LifecycleState.STOPPED,  # found, then left alone: adopting was cancelled
    },
    LifecycleState.READY: {
        LifecycleEvent.SLEPT: LifecycleState.ASLEEP,
        LifecycleEvent.STOP_ASKED: LifecycleState.STOPPING,
        LifecycleEvent.EXITED: LifecycleState.SWEEPING,
        LifecycleEvent.RELEASED: LifecycleState.STOPPED,
    },
    LifecycleState.ASLEEP: {
        LifecycleEvent.WOKEN: LifecycleState.STARTING,
        LifecycleEvent.STOP_ASKED: LifecycleState.STOPPING,
        LifecycleEvent.EXITED: LifecycleState.SWEEPING,
    },
    # A second `stop` joins the first. The main process exited as asked; its group may still run.
    LifecycleState.STOPPING: {
        LifecycleEvent.STOP_ASKED: LifecycleState.STOPPING,
        LifecycleEvent.EXITED: LifecycleState.STOPPING,
        LifecycleEvent.GONE: LifecycleState.STOPPED,
    },
    LifecycleState.SWEEPING: {
        LifecycleEvent.STOP_ASKED: LifecycleState.SWEEPING,
        LifecycleEvent.GONE: LifecycleState.STOPPED,
    },
}


def advance(state: LifecycleState, event: LifecycleEvent) -> LifecycleState:
    """The state after `event`. Raises IllegalEvent."""
    try:
        return TABLE[state][event]
    except KeyError:
        raise IllegalEvent(state, event) from None
