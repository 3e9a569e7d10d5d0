"""Which replica of a serve a request joins, in which place one is started, and when one more. Only answers: moves and
starts nothing.

A request is bound to a replica when it arrives; it joins another one only if its own cannot serve it, or if another one
has a place for it first. One more replica starts in an empty slot, once its waiting requests have paid for it, or
because fewer are loaded than are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from heapq import merge
from itertools import islice
from typing import NamedTuple

from stoker.domain.key import Priority
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.eviction import DoesNotFit, Victims, fits, victims_for, worth
from stoker.request.lease.state import LoadReason, ReplicaSet, ServeState
from stoker.request.lease.timing import has_residency, linger, measured_swap_time, residency_ends
from stoker.request.lease.waiter import Waiter, Want

LEAST_MISSING = 1024
"""Bytes of a prompt, about 250 tokens. To save reading less than this is not worth a wait behind others."""


_LOADED = (ServePhase.READY, ServePhase.STARTING)


class Suitability(IntEnum):
    """How well a place suits a start, the best first."""

    FITS = 0
    """Nobody has to stop."""
    IDLE_VICTIMS = 1
    """Only serves that no request uses have to stop."""
    IN_BOX = 2
    """Another Stoker loads it, whose machine may be asleep, and whose other users may have to make room."""
    BUSY_VICTIMS = 3
    LATER = 4
    """Something starts or stops there."""
    KEPT_VICTIMS = 5
    """A replica has to stop that is kept loaded, and there is no free place for it."""
    ELSEWHERE = 6
    """Something else would have to start it, and it was not there when it was last looked for."""
    BACKS_OFF = 7
    """Its last start failed."""
    NEVER = 8
    """It does not fit, or an operator holds it, or it is parked."""


_WITH_VICTIMS = (Suitability.IDLE_VICTIMS, Suitability.BUSY_VICTIMS, Suitability.KEPT_VICTIMS)


class Place(NamedTuple):
    """A replica's place, ordered by how little a start there disturbs."""

    suitability: Suitability
    stops_needed_serve: bool
    """Whether a victim is the only replica of its serve that is ready."""
    evictable_at: float
    """From when on its victims may be stopped; `now`, if that is over."""
    victims_worth: float
    """The sum of `eviction.worth`."""
    swap_time: float


def choose_replica(replicas: Sequence[ServeState], now: float, missing: Mapping[str, int] | None = None) -> ServeState:
    """The replica that a request joins. `replicas` may not be empty.

    1. ready and taking requests -> one with a free place, else one that need not refuse it; of several the least
                                    missing x (in flight + queued + 1), then the least load
    2. starting                  -> the one with the fewest waiting
    3. otherwise                 -> the one that is best started, see `place`; of equally suitable ones the one that
                                    requests wait for already

    `missing`: by replica, how many bytes of the prompt it has not in its prefix cache; None: unknown. Equal ones in the
    order of the configuration. Source of 1: LMetric, arXiv 2603.15202, without its queue term.
    """
    taking = [s for s in replicas if s.phase is not ServePhase.STOPPED and s.takes_requests()]
    ready = [state for state in taking if state.phase is ServePhase.READY]
    if len(ready) == 1:
        return ready[0]
    if ready:
        missing_of = missing or {}
        return min(
            ready,
            key=lambda s: (_lack_of_room(s), max(missing_of.get(s.name, 0), LEAST_MISSING) * (_load(s) + 1), _load(s)),
        )  # 1
    starting = [state for state in taking if state.phase is ServePhase.STARTING]
    if starting:
        return min(starting, key=lambda state: len(state.queue))  # 2
    suitable = [(suitability(state, now), not state.queue) for state in replicas]
    least = min(suitable)
    best = [state for state, how in zip(replicas, suitable, strict=True) if how == least]
    return best[0] if len(best) == 1 else min(best, key=lambda state: place(state, now, least[0]))  # 3


def suitability(state: ServeState, now: float) -> Suitability:
    """How well its place suits a start of this replica."""
    if not state.takes_requests():
        return Suitability.NEVER
    if now < state.backoff_until:
        return Suitability.BACKS_OFF
    if state.phase is not ServePhase.STOPPED:
        return Suitability.LATER
    if state.is_elsewhere:
        return Suitability.ELSEWHERE
    if state.serve.box_place is not None:
        return Suitability.IN_BOX
    fit = victims_for(state)
    if not isinstance(fit, Victims):
        return Suitability.NEVER if isinstance(fit, DoesNotFit) else Suitability.LATER
    if not fit.serves:
        return Suitability.FITS
    if fit.stops_kept and any(free_place(replicas, now, state) is None for replicas in left_short(fit.serves)):
        return Suitability.KEPT_VICTIMS
    for victim in fit.serves:
        if victim.is_used():
            return Suitability.BUSY_VICTIMS
    return Suitability.IDLE_VICTIMS


def place(state: ServeState, now: float, how: Suitability) -> Place:
    """How a start of this replica would disturb others. `how`: its suitability."""
    swap_time = measured_swap_time(state)
    fit = victims_for(state) if how in _WITH_VICTIMS else None
    if not isinstance(fit, Victims) or not fit.serves:
        return Place(how, False, state.backoff_until if how is Suitability.BACKS_OFF else 0.0, 0.0, swap_time)
    stops_needed_serve, at, worths = False, now, 0.0
    for victim in fit.serves:
        stops_needed_serve = stops_needed_serve or not victim.is_extra()
        at = max(at, evictable_at(victim, state))
        worths += worth(victim, now)
    return Place(how, stops_needed_serve, at, worths, swap_time)


def free_place(replicas: ReplicaSet, now: float, apart_from: ServeState | None = None) -> ServeState | None:
    """Where one more replica can start at once: it fits, nobody waits for the place, and `apart_from` does not need it.

    None: nowhere, or as many as allowed are loaded.
    """
    if replicas.is_complete():
        return None
    for state in replicas.replicas:
        if not may_start_unasked(state) or now < state.backoff_until or not fits(state):
            continue
        is_apart = apart_from is None or set(apart_from.slot_states).isdisjoint(state.slot_states)
        if is_apart and not state.gives_way() and not state.is_clearing():
            return state
    return None


def may_start_unasked(state: ServeState) -> bool:
    """Whether a replica is stopped, and may be started although no request waits for it: never in a box, which would
    be woken for it.
    """
    if state.phase is not ServePhase.STOPPED or state.is_elsewhere or state.serve.box_place is not None:
        return False
    return state.takes_requests() and not state.is_unloaded and not state.serve.needs_force


def left_short(victims: Collection[ServeState]) -> list[ReplicaSet]:
    """The serves of which fewer replicas than are kept loaded would be ready without these."""
    sets = dict.fromkeys(
        replica.replica_set for replica in victims if replica.serve.min_replicas and replica.counts_as_kept()
    )
    return [replica for replica in sets if replica is not None and replica.spare(victims) < 0]


def sibling_for_waiting(state: ServeState, now: float) -> ServeState | None:
    """The replica that the requests waiting for this one join if it cannot serve them; None: there is none that is
    ready, starts, or may be started.
    """
    others = (
        [] if state.replica_set is None else [replica for replica in state.replica_set.replicas if replica is not state]
    )
    if not others:
        return None
    other = choose_replica(others, now)
    return other if can_answer(other, now) else None


def better_replica(state: ServeState, now: float) -> ServeState | None:
    """The replica that the requests waiting for this one join, because that one serves them, or is started with less
    disturbance; None: they stay.
    """
    if state.takes_requests() and state.phase in _LOADED:
        return None
    own = suitability(state, now)
    for replica in () if state.replica_set is None else state.replica_set.replicas:
        if replica is not state and (replica.phase in _LOADED or suitability(replica, now) < own):
            break
    else:
        return None
    other = sibling_for_waiting(state, now)
    if other is None or other.phase in _LOADED:
        return other
    return other if suitability(other, now) < own else None


def to_take_over(state: ServeState, replicas: ReplicaSet) -> list[tuple[Waiter, ServeState]]:
    """The requests that a ready replica takes over, each with the sibling that it waits for now.

    1. as many requests wait for it as it has places, or it takes none   -> none
    2. those that would get a place here at once, and would not there    -> as many as there are places; of each sibling
                                                                            in the order in which it gives places, of
                                                                            several the most important, longest waiting
    """
    free = state.serve.max_active - state.active - len(state.queue)
    if free <= 0 or not state.takes_requests():
        return []  # 1
    orders = [
        [
            (waiter, sibling)
            for waiter in sibling.waiting_order()
            if may_join(waiter, state) and _gets_place(waiter, state) and not _gets_place(waiter, sibling)
        ]
        for sibling in replicas.replicas
        if sibling.queue and sibling is not state
    ]
    return list(islice(merge(*orders, key=_importance), free))  # 2


def may_join(waiter: Waiter, state: ServeState) -> bool:
    """Whether it may be moved to this replica. An operator's switch waits for the replica that it named."""
    return waiter.want is Want.REQUEST and state.name not in waiter.avoid


def _gets_place(waiter: Waiter, state: ServeState) -> bool:
    """Whether it would be granted here at once, if it were the first one."""
    if state.phase is not ServePhase.READY or (waiter.is_background and state.gives_way()):
        return False
    return state.has_place() or not waiter.takes_place


def _importance(move: tuple[Waiter, ServeState]) -> tuple[Priority, float, int]:
    waiter = move[0]
    return waiter.share.priority, waiter.since, waiter.id


def can_answer(state: ServeState, now: float) -> bool:
    """Whether a replica takes requests, and is ready, starts, or may be started."""
    if state.phase in _LOADED:
        return state.takes_requests()
    return suitability(state, now) < Suitability.BACKS_OFF


def evictable_at(victim: ServeState, target: ServeState) -> float:
    """From when on an idle victim may be stopped."""
    if victim.is_unused(LoadReason.IDLE):
        return 0.0
    idle_at = victim.unused_since + linger(victim, target, 1)
    return max(residency_ends(victim), idle_at) if has_residency(victim) else idle_at


def _lack_of_room(state: ServeState) -> int:
    """0: a request gets a place there. 1: it waits. 2: it is refused."""
    if state.has_place():
        return 0
    serve = state.serve
    return 2 if serve.queue_timeout <= 0 or len(state.queue) >= serve.queue else 1


def _load(state: ServeState) -> int:
    return state.active + len(state.queue)


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
    3. one starts, drains or stops                                   -> no; but while all that start do so in boxes,
                                                                        which may sleep or be busy for long, the best
                                                                        place here for which only idle serves have to
                                                                        stop, as by 7 and 8
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
    extra = _extra_replica(replicas, now)
    return extra if extra.state is not None else extra._replace(at=min(extra.at, replicas.next_retry(now)))


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
    if not ready and starting and waits_for_boxes(starting):
        here = [one for one in stopped if one.serve.box_place is None and _is_open_to_extra(one, now)]
        return _when_evictable(here, now) if here else NO_EXTRA  # 3
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
    target = _best(open_places, now)
    price = _price(target)
    if paid + ROUNDING < price:
        return ExtraReplica(None, (), now + (price - paid) / len(waiting), True)  # 5
    return _when_evictable([target], now)


def waits_for_boxes(starting: Sequence[ServeState]) -> bool:
    """Whether requests wait for these, and all of them start in boxes."""
    return all(one.serve.box_place is not None for one in starting) and bool(_foreground(list(starting)))


def _best(places: Sequence[ServeState], now: float) -> ServeState:
    return min(places, key=lambda state: place(state, now, suitability(state, now)))


def _when_evictable(places: Sequence[ServeState], now: float) -> ExtraReplica:
    """7 and 8 of `extra_replica`, for the best of these places."""
    target = _best(places, now)
    fit = victims_for(target)
    victims = fit.serves if isinstance(fit, Victims) else ()
    at = max((evictable_at(victim, target) for victim in victims), default=now)
    return ExtraReplica(target, victims, now) if at <= now else ExtraReplica(None, (), at, True)  # 7, 8


def is_alone(state: ServeState) -> bool:
    """Whether its slots are empty, and on this machine: nothing else is loaded there, wanted or waited for. Slots of a
    cluster or a box belong to others, too.
    """
    for slot_state in state.slot_states:
        if not slot_state.slot.is_here or any(s.is_live() for s in slot_state.live if s is not state):
            return False
    return True


def _foreground(states: list[ServeState]) -> list[Waiter]:
    return [w for state in states for w in state.queue.values() if w.want is Want.REQUEST and not w.is_background]


def _price(state: ServeState) -> float:
    return state.slot_state.slot.swap.patience * measured_swap_time(state)


def _is_open_to_extra(state: ServeState, now: float) -> bool:
    if state.gives_way() or state.is_clearing():
        return False
    return suitability(state, now) <= Suitability.IN_BOX


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
    earliest = NO_EXTRA
    for state in replicas.replicas:
        if not may_start_unasked(state):
            continue
        if now < state.backoff_until:
            earliest = min(earliest, ExtraReplica(None, (), state.backoff_until), key=_at)
        elif _is_open_to_extra(state, now):
            victims = _idle_victims(state, replicas)
            due = max((v.unused_since + v.slot_state.slot.idle_serve_after for v in victims), default=float("inf"))
            earliest = min(earliest, ExtraReplica(state if due <= now else None, victims, due), key=_at)
    return earliest  # 3, 4


def _at(extra: ExtraReplica) -> float:
    return extra.at


def _idle_victims(state: ServeState, replicas: ReplicaSet) -> tuple[ServeState, ...]:
    """Who makes room for a replica that is kept loaded; empty: nobody has to, or one of them may not be taken."""
    fit = victims_for(state)
    if not isinstance(fit, Victims) or fit.stops_kept:
        return ()
    may_not = any(v.name == v.slot_state.slot.idle_serve or v.replica_set is replicas for v in fit.serves)
    return () if may_not else fit.serves
