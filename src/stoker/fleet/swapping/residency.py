"""The state of each serve, for choosing among several. Reads the scheduler's state, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.domain.serve import Serve
from stoker.request.lease.eviction import fits
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ServeState


class Residency:
    """Read-only questions about the serves; `Conductor.residency` is the one to ask."""

    def __init__(self, seats: Mapping[str, ServeState]) -> None:
        self._seats = seats

    def is_loaded(self, name: str) -> bool:
        seat = self._seats.get(name)
        return seat is not None and seat.phase is ServePhase.READY

    def serve(self, name: str) -> Serve | None:
        """Its configuration as it runs now; None: it is not configured."""
        seat = self._seats.get(name)
        return None if seat is None else seat.serve

    def phase(self, name: str) -> str:
        """`ready`, `draining` and others; `stopped` also if it is not configured."""
        return self._seats[name].phase.value if name in self._seats else ServePhase.STOPPED.value

    def can_preload(self, name: str) -> bool:
        """Whether it is stopped, may start, and fits without evicting another serve."""
        seat = self._seats.get(name)
        if seat is None or seat.phase is not ServePhase.STOPPED or seat.parked or seat.held:
            return False
        return fits(seat)

    def displaces(self, name: str) -> bool:
        """Whether another model would have to leave before this one can run."""
        seat = self._seats.get(name)
        return seat is not None and seat.phase is ServePhase.STOPPED and not fits(seat)

    def unavailable_reason(self, name: str, now: float) -> str:
        """Why a serve cannot take requests now: `does_not_start` or `draining`; empty: it can, once it is loaded."""
        seat = self._seats.get(name)
        if seat is None or seat.parked or seat.removed or seat.backoff_until > now:
            return "does_not_start"
        return "draining" if seat.held else ""
