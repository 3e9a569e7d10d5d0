"""May X evict these residents now, or when? A question, not an action: nothing changes.

Requests are collated per model: a resident stays loaded for `min_residency`. After that it stays while it has
work, and for `linger` more. `swap_after` waiters end the linger; `max_wait` ends every protection.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.lease.state import ServeState, Want
from stoker.request.lease.timing import timing


class EvictionVerdict(NamedTuple):
    """`now`, or the earliest time at which the answer can change by itself (infinity: only by an event)."""

    now: bool
    at: float
    reason: str


def may_evict(target: ServeState, victims: tuple[ServeState, ...], now: float) -> EvictionVerdict:
    """Whether `target`'s waiters may move these residents out.

    1. an operator's switch waits      -> now
    2. no request waits (a preload)    -> never
    3. the oldest waited `max_wait`    -> now, even over residency
    4. a victim is inside its residency -> when that ends
    5. `swap_after` requests wait      -> now, even if the victims are busy
    6. a victim is busy                -> when it is idle, or at `max_wait`
    7. a victim was idle less than `linger` -> when that ends
    8. otherwise                       -> now
    """
    if any(w.want is Want.SWITCH for w in target.queue.values()):
        return EvictionVerdict(True, now, "switch")  # 1
    if not target.queue:
        return EvictionVerdict(False, float("inf"), "nobody waits")  # 2
    limits = timing(target)
    overdue_at = target.oldest + limits.max_wait
    if now >= overdue_at:
        return EvictionVerdict(True, now, "max_wait")  # 3
    settled_at = max(v.ready_since + timing(v).min_residency for v in victims)
    if now < settled_at:
        return EvictionVerdict(False, min(settled_at, overdue_at), "min_residency")  # 4
    if len(target.queue) >= target.slot_state.slot.swap.swap_after:
        return EvictionVerdict(True, now, "swap_after")  # 5
    if any(v.is_used() for v in victims):
        return EvictionVerdict(False, overdue_at, "busy")  # 6
    idle_at = max(v.idle_since for v in victims) + limits.linger
    if now < idle_at:
        return EvictionVerdict(False, min(idle_at, overdue_at), "linger")  # 7
    return EvictionVerdict(True, now, "idle")  # 8
