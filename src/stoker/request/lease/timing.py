"""How long things may take. Everything that is `auto` follows the measured swap time S.

The rule: docs/how-it-works/scheduling.md. S of a target is the median of its last five times from the stop of the
victims to ready; until it was measured, max(1 s, declared memory / 1 GB/s).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stoker.request.lease.state import ServeState

ASSUMED_BYTES_PER_SECOND = 1e9
ASSUMED_MINIMUM = 1.0
MIN_MAX_WAIT = 15.0
BACKOFF_BASE = 1.0
BACKOFF_CAP = 60.0
BACKOFF_WAIT = 5.0
"""Seconds. A request waits for a back-off that ends within this; for a longer one it is refused with Retry-After.
One that runs elsewhere and was not there is not waited for: Stoker cannot start it, and something else may answer.
"""
IDLE_SERVE_CAP = 3600.0
"""Seconds. An `idle_serve` that fails to start is tried again at least this often, while its slot is idle."""
STEADY_AFTER = 30.0
"""Seconds. A serve that exits later than this after it was ready gets no back-off: its start was good."""


class Timing(NamedTuple):
    """Seconds, for one target."""

    swap_time: float
    assumed: bool
    min_residency: float
    max_wait: float


def measured_swap_time(state: ServeState) -> float:
    """S of a serve, in seconds; until it was measured, the assumed one."""
    if state.swap_time is not None:
        return state.swap_time
    return max(ASSUMED_MINIMUM, (state.serve.memory or 0) / ASSUMED_BYTES_PER_SECOND)


def timing(state: ServeState) -> Timing:
    """The slot's swap policy in seconds, for this target."""
    return Timing(measured_swap_time(state), state.swap_time is None, min_residency(state), max_wait(state))


def min_residency(state: ServeState) -> float:
    policy = state.slot_state.slot.swap
    return policy.patience * measured_swap_time(state) if policy.min_residency is None else policy.min_residency


def max_wait(state: ServeState) -> float:
    policy = state.slot_state.slot.swap
    if policy.max_wait is not None:
        return policy.max_wait
    return max(2 * policy.patience * measured_swap_time(state), MIN_MAX_WAIT)


def swap_timeout(state: ServeState) -> float:
    """Seconds that a request waits for a load at most."""
    configured = state.slot_state.slot.swap.swap_timeout
    return max_wait(state) + _contention(state) if configured is None else configured


def _contention(state: ServeState) -> float:
    """Seconds that draining, stopping and starting every serve of the slot can take, one after the other."""
    slot_state = state.slot_state
    if state.more_slots:
        return _longest_swaps(state, dict.fromkeys(other for slot in state.slot_states for other in slot.serves))
    if slot_state.longest_swaps is None:
        slot_state.longest_swaps = _longest_swaps(state, slot_state.serves)
    return slot_state.longest_swaps


def _longest_swaps(state: ServeState, others: Iterable[ServeState]) -> float:
    drain = state.slot_state.slot.swap.drain_timeout
    return sum(drain + s.serve.longest_stop + s.serve.ready_timeout for s in others)


def idle_serve_retry(state: ServeState) -> float:
    """The earliest time at which an idle slot may start its `idle_serve` after failed starts: each one doubles the
    delay, because each attempt may stop a resident.
    """
    if not state.failures:
        return 0.0
    after = max(state.slot_state.slot.idle_serve_after, BACKOFF_BASE)
    return state.failed_at + min(after * 2.0 ** min(state.failures, 16), max(after, IDLE_SERVE_CAP))


def backoff(failures: int) -> float:
    """Seconds until the next attempt after this many failed starts in a row."""
    return min(BACKOFF_BASE * 2.0 ** min(failures - 1, 16), BACKOFF_CAP)
