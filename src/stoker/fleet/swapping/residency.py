"""The state of each serve, for choosing among several. Reads the scheduler's state, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.serve import Serve
from stoker.request.lease.eviction import fits
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ServeState


class Residency:
    """Read-only questions about the serves; `Conductor.residency` is the one to ask."""

    def __init__(self, states: Mapping[str, ServeState]) -> None:
        self._states = states

    def is_loaded(self, name: str) -> bool:
        state = self._states.get(name)
        return state is not None and state.phase is ServePhase.READY

    def serve(self, name: str) -> Serve | None:
        """Its configuration as it runs now; None: it is not configured."""
        state = self._states.get(name)
        return None if state is None else state.serve

    def phase(self, name: str) -> str:
        """`ready`, `draining` and others; `stopped` also if it is not configured."""
        return self._states[name].phase.value if name in self._states else ServePhase.STOPPED.value

    def can_preload(self, name: str) -> bool:
        """Whether it is stopped, may start, and fits without evicting another serve."""
        state = self._states.get(name)
        if state is None or state.phase is not ServePhase.STOPPED or state.parked or state.is_drained:
            return False
        return fits(state)

    def displaces(self, name: str) -> bool:
        """Whether another model would have to leave before this one can run."""
        state = self._states.get(name)
        return state is not None and state.phase is ServePhase.STOPPED and not fits(state)

    def unavailable_reason(self, name: str, now: float) -> str:
        """Why a serve cannot take requests now: `does_not_start` or `draining`; empty: it can, once it is loaded."""
        state = self._states.get(name)
        if state is None or state.parked or state.removed or state.backoff_until > now:
            return "does_not_start"
        return "draining" if state.is_drained else ""
