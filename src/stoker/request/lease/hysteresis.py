"""May X take these places now, or when? A question, not an action.

Requests are collated per model: a resident keeps its place for `min_residency`, and after that while it has work
and for `linger` beyond; `swap_after` waiters end the linger, `max_wait` ends everything.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.lease.state import Seat, Want
from stoker.request.lease.timing import timing


class Verdict(NamedTuple):
    """`now`, or the earliest time at which the answer can change by itself (infinity: only by an event)."""

    now: bool
    at: float
    reason: str


def may_evict(target: Seat, victims: tuple[Seat, ...], now: float) -> Verdict:
    """Whether `target`'s waiters may move these residents out.

    1. an operator's switch waits      -> now
    2. nobody waits (a mere preload)   -> never
    3. the oldest waited `max_wait`    -> now, even over residency
    4. a victim is inside its residency -> when that ends
    5. `swap_after` requests wait      -> now, even if the victims are busy
    6. a victim is busy                -> when it is idle, or at `max_wait`
    7. a victim was idle less than `linger` -> when that ends
    8. otherwise                       -> now
    """
    if any(w.want is Want.SWITCH for w in target.queue.values()):
        return Verdict(True, now, "switch")  # 1
    if not target.queue:
        return Verdict(False, float("inf"), "nobody waits")  # 2
    limits = timing(target)
    overdue_at = target.oldest + limits.max_wait
    if now >= overdue_at:
        return Verdict(True, now, "max_wait")  # 3
    settled_at = max(v.ready_since + timing(v).min_residency for v in victims)
    if now < settled_at:
        return Verdict(False, min(settled_at, overdue_at), "min_residency")  # 4
    if len(target.queue) >= target.room.slot.swap.swap_after:
        return Verdict(True, now, "swap_after")  # 5
    if any(v.is_used() for v in victims):
        return Verdict(False, overdue_at, "busy")  # 6
    idle_at = max(v.idle_since for v in victims) + limits.linger
    if now < idle_at:
        return Verdict(False, min(idle_at, overdue_at), "linger")  # 7
    return Verdict(True, now, "idle")  # 8
