"""How long things may take, and from when on residents may be stopped. Only answers; changes nothing.

The rule: docs/how-it-works/scheduling.md. Everything that is `auto` follows the measured swap time S. S of a target is
the median of its last five times from the stop of the victims to ready; until it was measured, max(1 s, declared
memory / 1 GB/s).

An `idle_serve` that came back to an idle slot, and was not used yet, is not protected. Any other resident stays loaded
while requests use it, and for `linger` seconds more; at least for `min_residency`, so that one swap serves many
requests. `swap_after` waiting requests end the first two. A request that has waited `max_wait` ends every protection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stoker.domain.serve_phase import ServePhase
from stoker.domain.session import Session
from stoker.request.lease.sessions import (
    LOOP_WAITS,
    SWAP_WORTH,
    GapMemory,
    is_in_loop,
    slowdown,
    waiting_cost,
)
from stoker.request.lease.state import LoadReason, ServeState
from stoker.request.lease.waiter import Waiter, Want

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


def overdue_at(state: ServeState, waiters: Iterable[Waiter]) -> float:
    """When one of these will have waited too long for a serve, whatever that costs others; infinity: there are none.

    `max_wait`. A request in a loop, unless that is configured: LOOP_WAITS times as long, but at most half of the time
    after which it is refused.
    """
    longest, is_auto = max_wait(state), state.slot_state.slot.swap.max_wait is None
    at = float("inf")
    for waiter in waiters:
        most = longest
        if is_auto and waiter.share.session is not None and is_in_loop(waiter):
            most = max(longest, min(LOOP_WAITS * longest, (waiter.deadline - waiter.since) / 2))
        at = min(at, waiter.since + most)
    return at


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


LEAST_RECHECK = 0.1
"""Seconds."""
LEAST_LINGER = 0.5
"""Seconds that a resident is kept beyond its usual gaps: they vary."""
MOST_READING = 3.0
"""Times its swap time that reading a session's prompt again counts for at most."""


class EvictionTime(NamedTuple):
    """Whether the residents may be stopped `now`. `at`: the earliest time at which the answer can change without an
    event; infinity: never.
    """

    now: bool
    at: float
    reason: str


def may_evict(target: ServeState, victims: tuple[ServeState, ...], now: float, gaps: GapMemory) -> EvictionTime:
    """Whether requests that wait for `target` may evict these residents.

    1. an operator's switch waits      -> now
    2. no request waits (a preload)    -> never
       only background requests wait   -> never while a victim is busy, or another request waits in the slot;
                                          else as from 4 on
    3. the oldest waited `max_wait`    -> now, even inside `min_residency`; one in a loop waits longer, see `overdue_at`
    4. a victim is inside its residency -> when that ends; see `has_residency`. In 4 and 8, an unused idle serve
                                          does not count
    5. `swap_after` requests wait      -> now, even if the victims are busy. If 6 applies, those in loops do not count
    6. sessions use the victims        -> when the waiting has cost more than the swap would, see `swap_is_worth`; not
                                          if `min_residency` or `linger` is configured
    7. a victim is busy                -> when it is idle, or at `max_wait`
    8. a victim was idle less than `linger` -> when that ends, see `linger`
    9. otherwise                       -> now
    """
    if any(w.want is Want.SWITCH for w in target.queue.values()):
        return EvictionTime(True, now, "switch")  # 1
    if not target.queue:
        return EvictionTime(False, float("inf"), "nobody waits")  # 2
    foreground = target.foreground()
    if not foreground:
        if any(v.is_used() for v in victims) or _has_foreground(target):
            return EvictionTime(False, float("inf"), "background")  # 2
        latest = float("inf")
    else:
        latest = overdue_at(target, foreground)
    if now >= latest:
        return EvictionTime(True, now, "max_wait")  # 3
    protected = [v for v in victims if not v.is_unused(LoadReason.IDLE)]
    settled_at = max([residency_ends(v) for v in protected if not foreground or has_residency(v)], default=now)
    if now < settled_at:
        return EvictionTime(False, min(settled_at, latest), "min_residency")  # 4
    policy = target.slot_state.slot.swap
    is_auto = foreground and policy.min_residency is None and policy.linger is None
    at = swap_is_worth(target, victims, now, gaps) if is_auto and any(v.sessions for v in victims) else None
    if sum(at is None or not is_in_loop(waiter) for waiter in foreground) >= policy.swap_after:
        return EvictionTime(True, now, "swap_after")  # 5
    if at is not None:
        return EvictionTime(at <= now, min(at, latest), "sessions" if at > now else "idle")  # 6
    if any(v.is_used_by_foreground() for v in victims):
        return EvictionTime(False, latest, "busy")  # 7
    idle_at = max([v.unused_since + linger(v, target, len(foreground)) for v in protected], default=now)
    if now < idle_at:
        return EvictionTime(False, min(idle_at, latest), "linger")  # 8
    return EvictionTime(True, now, "idle")  # 9


def has_residency(victim: ServeState) -> bool:
    """Whether `min_residency` protects a resident from requests: an idle one only if the configuration sets it."""
    return victim.slot_state.slot.swap.min_residency is not None or victim.is_used_by_foreground()


def residency_ends(victim: ServeState) -> float:
    """When a resident has been loaded for `min_residency`."""
    return victim.ready_since + min_residency(victim)


def swap_is_worth(target: ServeState, victims: tuple[ServeState, ...], now: float, gaps: GapMemory) -> float | None:
    """When the sessions that wait in the target's slots have lost more than `sessions` allows for what the swap costs
    those of the victims; or when to ask again. None: no session uses the victims, or is likely to return to them.
    """
    policy, price, is_used = target.slot_state.slot.swap, 0.0, False
    for victim in victims:
        swap_time = measured_swap_time(victim)
        busy, alone = victim.open_sessions()
        price += SWAP_WORTH * swap_time * alone
        weighed = [(session, SWAP_WORTH) for session in busy]
        least: tuple[Session, float] | None = None
        for session in victim.sessions:
            if session in busy:
                continue
            worth = gaps.worth(session, now, swap_time)
            if worth >= SWAP_WORTH:
                weighed.append((session, worth))
            elif worth and (least is None or worth > least[1]):
                least = session, worth
        for session, worth in weighed if least is None else [*weighed, least]:
            is_used = True
            lost = swap_time + min(victim.reading.seconds(session.tokens), MOST_READING * swap_time)
            price += worth * slowdown(session, now, swap_time) * lost
    if not is_used:
        return None
    waiters = [
        (waiter, measured_swap_time(state))
        for slot_state in target.slot_states
        for state in slot_state.live
        if state.phase is ServePhase.STOPPED
        for waiter in state.foreground()
    ]
    paid, rate = waiting_cost(waiters, now)
    price *= policy.patience
    if paid >= price:
        return now
    due = now + (price - paid) / rate
    waited = now - min(waiter.since for waiter, _ in waiters)
    due = min(due, now + max(LEAST_RECHECK, waited / 4))  # a second costs more, the longer they wait
    if any(victim.is_used() for victim in victims):
        return max(due, now + LEAST_RECHECK)
    idle = now - max(victim.unused_since for victim in victims)
    return min(due, now + max(LEAST_RECHECK, idle / 4))  # the chance of a return falls meanwhile


def linger(victim: ServeState, target: ServeState, waiting: int) -> float:
    """For how many seconds after its last request a resident is kept, while so many requests wait for `target`.

    Keeping it costs each of them the time that it is idle; stopping it costs its swap time, once it is needed again.
    The price of a swap is `patience` times that, as for one more replica. A gap is the usual one between two requests;
    its cost is that of keeping a resident so long. If `linger` is auto:

    1. it is a replica beside a ready one -> 0 s: that one serves the next request
    2. the target's gap is unknown, or costs more than half the price -> 0 s: each of the target's requests needs a swap
       of its own, however long the resident is kept
    3. its own gap costs at least the price -> 0 s
    4. its own gap is unknown -> until their waiting in that time reaches the price (the ski-rental rule)
    5. otherwise -> the same, but at most three times its gap: then the next request comes later than usual, or never
    """
    policy = target.slot_state.slot.swap
    if policy.linger is not None:
        return policy.linger
    if victim.is_extra():
        return 0.0
    price = policy.patience * measured_swap_time(victim)
    affordable, gap, gap_of_target = price / max(1, waiting), victim.usual_gap, target.usual_gap
    if gap_of_target is None or gap_of_target > affordable / 2:
        return 0.0
    if gap is None:
        return affordable
    return min(affordable, 3 * gap + LEAST_LINGER) if gap < affordable else 0.0


def _has_foreground(target: ServeState) -> bool:
    """Whether a request that is no background request waits in a slot of the target."""
    return any(state.foreground() for slot_state in target.slot_states for state in slot_state.live)
