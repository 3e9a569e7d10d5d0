"""When one more replica of a serve starts: a slot is empty, its waiting requests have paid for it, or it is kept
loaded. Only answers; changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.lease.eviction import Victims, victims_for
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.places import Suitability, evictable_at, free_place, may_start_unasked, place, suitability
from stoker.request.lease.state import ReplicaSet, ServeState
from stoker.request.lease.timing import measured_swap_time
from stoker.request.lease.waiter import Waiter, Want


class ExtraReplica(NamedTuple):
    """Whether one more replica is started: `state` now, or nobody until `at` (infinity: until something happens)."""

    state: ServeState | None
    victims: tuple[ServeState, ...]
    at: float
    depends_on_time: bool = False
    """Whether the answer can change before `at` although nothing happens: another place may suit better then."""


NO_EXTRA = ExtraReplica(None, (), float("inf"))
ROUNDING = 1e-6
"""Seconds."""


def extra_replica(replicas: ReplicaSet, now: float) -> ExtraReplica:
    """Whether one more replica of a serve is started.

    1. as many as allowed are loaded                                 -> no
    2. more requests wait than replicas start, and a slot of this machine is empty -> now: it disturbs nobody
    3. one starts, drains or stops                                   -> no
    4. no request waits for a place on a ready one                   -> no
    5. the waiting requests have waited less, all together, than `patience` times its swap time      -> not yet
    6. nowhere does it fit, not even if idle serves stop; or another serve waits for each such place -> no
    7. its victims are inside their residency, or were used just now -> not yet
    8. otherwise                                                     -> now

    5 is the ski-rental rule: it costs at most about twice what somebody who knew the future would pay. Where the
    answer is no, it is asked again when the next failed start may be tried again.
    """
    if replicas.is_complete():
        return NO_EXTRA  # 1
    found = _extra_replica(replicas, now)
    return found if found.state is not None else found._replace(at=min(found.at, replicas.next_retry(now)))


def _extra_replica(replicas: ReplicaSet, now: float) -> ExtraReplica:
    """2 to 8."""
    ready = [state for state in replicas.replicas if state.phase is ServePhase.READY]
    stopped = [state for state in replicas.replicas if state.phase is ServePhase.STOPPED]
    waiting = _foreground(ready)
    starting = [state for state in replicas.replicas if state.phase is ServePhase.STARTING]
    if len(waiting) + len(_foreground(starting)) > len(starting):
        for state in stopped:
            if is_alone(state) and suitability(state, now) is Suitability.FITS:
                return ExtraReplica(state, (), now)  # 2
    if not ready or len(ready) + len(stopped) < len(replicas.replicas):
        return NO_EXTRA  # 3
    if not waiting or not stopped:
        return NO_EXTRA  # 4
    paid = sum(now - waiter.since for waiter in waiting)
    price = min(map(_price, stopped))
    if paid + ROUNDING < price:
        return ExtraReplica(None, (), now + (price - paid) / len(waiting))  # 5: not even the cheapest place is paid for
    open_places = [state for state in stopped if _is_open_to_extra(state, now)]
    if not open_places:
        return NO_EXTRA  # 6
    target = min(open_places, key=lambda state: place(state, now, suitability(state, now)))
    price = _price(target)
    if paid + ROUNDING < price:
        return ExtraReplica(None, (), now + (price - paid) / len(waiting), True)  # 5
    fit = victims_for(target)
    victims = fit.serves if isinstance(fit, Victims) else ()
    at = max((evictable_at(victim, target) for victim in victims), default=now)
    return ExtraReplica(target, victims, now) if at <= now else ExtraReplica(None, (), at, True)  # 7, 8


def is_alone(state: ServeState) -> bool:
    """Whether its slots are empty, and on this machine: nothing else is loaded there, wanted or waited for. Slots of a
    cluster belong to others, too.
    """
    for slot_state in state.slot_states:
        if slot_state.slot.cluster is not None or any(s.is_live() for s in slot_state.live if s is not state):
            return False
    return True


def _foreground(states: list[ServeState]) -> list[Waiter]:
    return [w for state in states for w in state.queue.values() if w.want is Want.REQUEST and not w.is_background]


def _price(state: ServeState) -> float:
    return state.slot_state.slot.swap.patience * measured_swap_time(state)


def _is_open_to_extra(state: ServeState, now: float) -> bool:
    if state.gives_way() or state.is_clearing():
        return False
    return suitability(state, now) <= Suitability.IDLE_VICTIMS


def kept_replica(replicas: ReplicaSet, now: float) -> ExtraReplica:
    """Whether a replica is started because fewer are loaded than are kept.

    1. as many as are kept are ready or start, or as many as allowed are loaded        -> no
    2. it fits somewhere, and nobody waits for the place                               -> now
    3. the victims of a place are idle for `idle_serve_after`                          -> now; it is not taken from the
                                                                                          slot's `idle_serve`, nor from
                                                                                          a replica that is kept, too
    4. otherwise                                                                       -> when 3 holds, or when a failed
                                                                                          start may be tried again
    """
    if replicas.spare() + replicas.starting() >= 0 or replicas.is_complete():
        return NO_EXTRA  # 1
    free = free_place(replicas, now)
    if free is not None:
        return ExtraReplica(free, (), now)  # 2
    found = NO_EXTRA
    for state in replicas.replicas:
        if not may_start_unasked(state):
            continue
        if now < state.backoff_until:
            found = min(found, ExtraReplica(None, (), state.backoff_until), key=_at)
        elif _is_open_to_extra(state, now):
            victims = _idle_victims(state, replicas)
            due = max((v.unused_since + v.slot_state.slot.idle_serve_after for v in victims), default=float("inf"))
            found = min(found, ExtraReplica(state if due <= now else None, victims, due), key=_at)
    return found  # 3, 4


def _at(extra: ExtraReplica) -> float:
    return extra.at


def _idle_victims(state: ServeState, replicas: ReplicaSet) -> tuple[ServeState, ...]:
    """Who makes room for a replica that is kept loaded; empty: nobody has to, or one of them may not be taken."""
    fit = victims_for(state)
    if not isinstance(fit, Victims) or fit.stops_kept:
        return ()
    may_not = any(v.name == v.slot_state.slot.idle_serve or v.replica_set is replicas for v in fit.serves)
    return () if may_not else fit.serves
