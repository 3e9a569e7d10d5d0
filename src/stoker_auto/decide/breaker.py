"""Keeps requests off a tier that fails, and lets it be tried again. Pure: `now` is given, in seconds of any clock.

    closed     -- `failures` faults in a row within `window` seconds --> open
    open       -- `cool_down` seconds later, asked for by a request --> half-open: that request is the probe
    half-open  -- the probe serves --> closed        -- the probe fails --> open
               -- no result of the probe for `cool_down` seconds --> the next request is the probe

A hang opens the circuit at once, because each further request would wait as long. A tier that asks for a pause (429 or
503 with Retry-After) is left alone until that moment, at most LONGEST_PAUSE, whatever the state is.

Only the tier's own faults count, not a caller's errors or a busy tier. Wrong answers do not count here: see `standing`.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

LONGEST_PAUSE = 3600.0
"""The longest pause that a tier may ask for, in seconds."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"
    RATE_LIMITED = "rate-limited"
    """Only shown, never stored: the tier asked for a pause."""


class Breaker:
    __slots__ = ("_cool_down", "_faults", "_most", "_pause_ends", "_since", "_window", "pause_status", "state")

    def __init__(self, failures: int = 5, window: float = 30.0, cool_down: float = 20.0) -> None:
        self.state = BreakerState.CLOSED
        self._most = failures
        self._window = window
        self._cool_down = cool_down
        self._faults: deque[float] = deque(maxlen=failures)
        self._since = 0.0
        """When it opened, or when the probe went out."""
        self._pause_ends = 0.0
        self.pause_status = 0
        """The HTTP status with which the tier last asked for a pause."""

    def blocks_requests(self, now: float) -> bool:
        """Whether requests avoid the tier. Changes nothing; reading it does not start a probe."""
        return self.state is not BreakerState.CLOSED and now - self._since < self._cool_down

    def pause(self, now: float) -> float:
        """Seconds left of the pause that the tier asked for; 0 if none."""
        return max(0.0, self._pause_ends - now)

    def visible_state(self, now: float) -> BreakerState:
        """The state as people see it."""
        return BreakerState.RATE_LIMITED if self._pause_ends > now else self.state

    def on_sent(self, now: float) -> None:
        """A request goes to the tier. If it is the first after the cool-down, it is the probe."""
        if self.state is not BreakerState.CLOSED and not self.blocks_requests(now):
            self.state, self._since = BreakerState.HALF_OPEN, now

    def on_served(self, now: float) -> None:
        self.state = BreakerState.CLOSED
        self._faults.clear()

    def on_fault(self, now: float) -> None:
        """The tier failed: it could not be reached, broke off, or refused every request (see `failover`)."""
        self._faults.append(now)
        many = len(self._faults) == self._most and now - self._faults[0] <= self._window
        if self.state is BreakerState.HALF_OPEN or (self.state is BreakerState.CLOSED and many):
            self.state, self._since = BreakerState.OPEN, now

    def on_hang(self, now: float) -> None:
        """The tier did not answer in time."""
        self._faults.append(now)
        self.state, self._since = BreakerState.OPEN, now

    def on_pause(self, now: float, seconds: float, status: int) -> None:
        """The tier answered `status` and asked for a pause. Of two pauses, the one that ends later counts."""
        ends = now + min(max(seconds, 0.0), LONGEST_PAUSE)
        if ends > max(self._pause_ends, now):
            self._pause_ends, self.pause_status = ends, status
