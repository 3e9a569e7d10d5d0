"""May these residents be stopped now for another model, and if not, when? Only answers the question; changes nothing.

An `idle_serve` that came back to an idle slot, and was not used yet, is not protected. Any other resident stays loaded
for at least `min_residency`, so that one swap serves many requests. After that it stays while requests use it, and for
`linger` seconds more. `swap_after` waiting requests end both. A request that has waited `max_wait` ends every
protection.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.lease.state import LoadReason, ServeState
from stoker.request.lease.timing import timing
from stoker.request.lease.waiter import Want


class EvictionTime(NamedTuple):
    """Whether the residents may be stopped `now`. `at`: the earliest time at which the answer can change without an
    event; infinity: never.
    """

    now: bool
    at: float
    reason: str


def may_evict(target: ServeState, victims: tuple[ServeState, ...], now: float) -> EvictionTime:
    """Whether requests that wait for `target` may evict these residents.

    1. an operator's switch waits      -> now
    2. no request waits (a preload)    -> never
       only background requests wait   -> never while a victim is busy, or another request waits in the slot;
                                          else as from 4 on
    3. the oldest waited `max_wait`    -> now, even inside `min_residency`
    4. a victim is inside its residency -> when that ends. In 4 and 7, an unused idle serve does not count
    5. `swap_after` requests wait      -> now, even if the victims are busy
    6. a victim is busy                -> when it is idle, or at `max_wait`
    7. a victim was idle less than `linger` -> when that ends
    8. otherwise                       -> now
    """
    if any(w.want is Want.SWITCH for w in target.queue.values()):
        return EvictionTime(True, now, "switch")  # 1
    if not target.queue:
        return EvictionTime(False, float("inf"), "nobody waits")  # 2
    limits = timing(target)
    foreground = target.foreground()
    if not foreground:
        if any(v.is_used() for v in victims) or _has_foreground(target):
            return EvictionTime(False, float("inf"), "background")  # 2
        overdue_at = float("inf")
    else:
        overdue_at = foreground[0].since + limits.max_wait
    if now >= overdue_at:
        return EvictionTime(True, now, "max_wait")  # 3
    protected = [v for v in victims if not v.is_unused(LoadReason.IDLE)]
    settled_at = max((v.ready_since + timing(v).min_residency for v in protected), default=now)
    if now < settled_at:
        return EvictionTime(False, min(settled_at, overdue_at), "min_residency")  # 4
    if len(foreground) >= target.slot_state.slot.swap.swap_after:
        return EvictionTime(True, now, "swap_after")  # 5
    if any(v.is_used_by_foreground() for v in victims):
        return EvictionTime(False, overdue_at, "busy")  # 6
    idle_at = max((v.unused_since + limits.linger for v in protected), default=now)
    if now < idle_at:
        return EvictionTime(False, min(idle_at, overdue_at), "linger")  # 7
    return EvictionTime(True, now, "idle")  # 8


def _has_foreground(target: ServeState) -> bool:
    """Whether a request that is no background request waits in a slot of the target."""
    return any(state.foreground() for slot_state in target.slot_states for state in slot_state.serves)
