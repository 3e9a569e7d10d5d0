"""The state of each serve, by which routing chooses. Reads the scheduler's state and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.domain.serve import Serve
from stoker.request.lease.eviction import fits
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ReplicaSet, ServeState

_BEST_FIRST = (
    ServePhase.READY, ServePhase.STARTING, ServePhase.DRAINING, ServePhase.STOPPING, ServePhase.STOPPED,
)  # fmt: skip


class Residency:
    """Answers questions about the serves, by the names that clients use and by those of replicas. The conductor makes
    the one that the program uses.
    """

    def __init__(self, states: Mapping[str, ServeState], replica_sets: Mapping[str, ReplicaSet] | None = None) -> None:
        self._states = states
        self._replica_sets = {} if replica_sets is None else replica_sets

    def _of(self, name: str) -> Sequence[ServeState]:
        """All replicas; empty: there is no such serve."""
        state = self._states.get(name)
        if state is not None:
            return (state,)
        found = self._replica_sets.get(name)
        return () if found is None else found.replicas

    def is_loaded(self, name: str) -> bool:
        """Whether it is ready; of several replicas one."""
        return any(state.phase is ServePhase.READY for state in self._of(name))

    def serve(self, name: str) -> Serve | None:
        """The configuration with which a serve, or its first replica, runs now; None: no such serve."""
        return next((state.serve for state in self._of(name)), None)

    def phase(self, name: str) -> str:
        """The name of a ServePhase: `ready`, `draining` and others; `stopped` also for an unknown serve. Of several
        replicas that of the one which is the most ready.
        """
        phases = {state.phase for state in self._of(name)}
        return next((phase.value for phase in _BEST_FIRST if phase in phases), ServePhase.STOPPED.value)

    def can_preload(self, name: str) -> bool:
        """Whether a serve is stopped, may be started, and fits without evicting another one."""
        states = self._of(name)
        if not all(state.phase is ServePhase.STOPPED for state in states):
            return False
        return any(not state.is_left_alone() and not state.is_held and fits(state) for state in states)

    def displaces(self, name: str) -> bool:
        """Whether a resident would have to stop before this serve can run."""
        states = self._of(name)
        is_stopped = all(state.phase is ServePhase.STOPPED for state in states)
        return bool(states) and is_stopped and not any(fits(state) for state in states)

    def unavailable_reason(self, name: str, now: float) -> str:
        """Why a serve takes no requests now: `does_not_start` or `draining`; empty: it does, once it is loaded. Of
        several replicas: why none of them does.
        """
        reasons = [_unavailable_reason(state, now) for state in self._of(name)]
        return min(reasons, default="does_not_start")


def _unavailable_reason(state: ServeState, now: float) -> str:
    if state.is_left_alone() or state.removed or state.backoff_until > now:
        return "does_not_start"
    return "draining" if state.is_held else ""
