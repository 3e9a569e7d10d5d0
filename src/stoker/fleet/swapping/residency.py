"""The state of each serve, by which routing chooses. Reads the scheduler's state and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.serve import Serve
from stoker.request.lease.eviction import fits
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ServeState


class Residency:
    """Answers questions about the serves. The conductor makes the one that the program uses."""

    def __init__(self, states: Mapping[str, ServeState]) -> None:
        self._states = states

    def is_loaded(self, name: str) -> bool:
        state = self._states.get(name)
        return state is not None and state.phase is ServePhase.READY

    def serve(self, name: str) -> Serve | None:
        """The configuration with which a serve runs now; None: no such serve."""
        state = self._states.get(name)
        return None if state is None else state.serve

    def phase(self, name: str) -> str:
        """The name of a ServePhase: `ready`, `draining` and others; `stopped` also for an unknown serve."""
        return self._states[name].phase.value if name in self._states else ServePhase.STOPPED.value

    def can_preload(self, name: str) -> bool:
        """Whether a serve is stopped, may be started, and fits without evicting another one."""
        state = self._states.get(name)
        if state is None or state.phase is not ServePhase.STOPPED or state.parked or state.is_held:
            return False
        return fits(state)

    def displaces(self, name: str) -> bool:
        """Whether a resident would have to stop before this serve can run."""
        state = self._states.get(name)
        return state is not None and state.phase is ServePhase.STOPPED and not fits(state)

    def unavailable_reason(self, name: str, now: float) -> str:
        """Why a serve takes no requests now: `does_not_start` or `draining`; empty: it does, once it is loaded."""
        state = self._states.get(name)
        if state is None or state.parked or state.removed or state.backoff_until > now:
            return "does_not_start"
        return "draining" if state.is_held else ""
