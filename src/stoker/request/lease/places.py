"""Which replica of a serve a request joins, and in which place one is started. Only answers; changes nothing.

A request is bound to a replica when it arrives; it joins another one only if its own cannot serve it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from stoker.request.lease.cheapest_victims import worth
from stoker.request.lease.eviction import Never, Victims, victims_for
from stoker.request.lease.eviction_time import has_residency, linger, residency_ends
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import LoadReason, ReplicaSet, ServeState
from stoker.request.lease.timing import measured_swap_time

LEAST_MISSING = 1024
"""Bytes of a prompt, about 250 tokens. To save reading less than this is not worth a wait behind others."""


class Suitability(IntEnum):
    """How well a place suits a start, the best first."""

    FITS = 0
    """Nobody has to stop."""
    IDLE_VICTIMS = 1
    """Only serves that no request uses have to stop."""
    BUSY_VICTIMS = 2
    LATER = 3
    """Something starts or stops there."""
    ELSEWHERE = 4
    """Something else would have to start it, and it was not there when it was last looked for."""
    BACKS_OFF = 5
    """Its last start failed."""
    NEVER = 6
    """It does not fit, or an operator holds it, or it is parked."""


class Place(NamedTuple):
    """A replica's place, ordered by how little a start there disturbs."""

    suitability: Suitability
    stops_needed_serve: bool
    """Whether a victim is the only replica of its serve that is ready."""
    evictable_at: float
    """From when on its victims may be stopped; `now`, if that is over."""
    victims_worth: float
    """The sum of `cheapest_victims.worth`."""
    swap_time: float


def choose_replica(replicas: Sequence[ServeState], now: float, missing: Mapping[str, int] | None = None) -> ServeState:
    """The replica that a request joins. `replicas` may not be empty.

    1. ready and taking requests -> one that need not refuse it; then the least missing x (in flight + queued + 1),
                                    then the least load
    2. starting                  -> the one with the fewest waiting
    3. otherwise                 -> the one that is best started, see `place`; of equally suitable ones the one that
                                    requests wait for already

    `missing`: by replica, how many bytes of the prompt it has not in its prefix cache; None: unknown. Equal ones in the
    order of the configuration. Source of 1: LMetric, arXiv 2603.15202, without its queue term.
    """
    taking = [state for state in replicas if state.takes_requests()]
    ready = [state for state in taking if state.phase is ServePhase.READY]
    if len(ready) == 1:
        return ready[0]
    if ready:
        known = missing or {}
        return min(
            ready, key=lambda s: (_is_full(s), max(known.get(s.name, 0), LEAST_MISSING) * (_load(s) + 1), _load(s))
        )  # 1
    starting = [state for state in taking if state.phase is ServePhase.STARTING]
    if starting:
        return min(starting, key=lambda state: len(state.queue))  # 2
    places = [(place(state, now), state) for state in replicas]
    return min(places, key=lambda one: (one[0].suitability, not one[1].queue, one[0]))[1]  # 3


def place(state: ServeState, now: float) -> Place:
    """How a start of this replica would disturb others."""
    swap_time = measured_swap_time(state)
    if not state.takes_requests():
        return Place(Suitability.NEVER, False, 0.0, 0.0, swap_time)
    if now < state.backoff_until:
        return Place(Suitability.BACKS_OFF, False, state.backoff_until, 0.0, swap_time)
    if state.phase is not ServePhase.STOPPED:
        return Place(Suitability.LATER, False, 0.0, 0.0, swap_time)
    if state.is_elsewhere:
        return Place(Suitability.ELSEWHERE, False, 0.0, 0.0, swap_time)
    fit = victims_for(state)
    if isinstance(fit, Never):
        return Place(Suitability.NEVER, False, 0.0, 0.0, swap_time)
    if not isinstance(fit, Victims):
        return Place(Suitability.LATER, False, 0.0, 0.0, swap_time)
    if not fit.serves:
        return Place(Suitability.FITS, False, 0.0, 0.0, swap_time)
    is_busy = any(victim.is_used() for victim in fit.serves)
    return Place(
        Suitability.BUSY_VICTIMS if is_busy else Suitability.IDLE_VICTIMS,
        not all(victim.is_extra() for victim in fit.serves),
        max(now, *(_evictable_at(victim, state) for victim in fit.serves)),
        sum(worth(victim, now) for victim in fit.serves),
        swap_time,
    )


def sibling_for_waiting(state: ServeState, now: float) -> ServeState | None:
    """The replica that the requests waiting for this one join if it cannot serve them; None: there is none that is
    ready, starts, or may be started.
    """
    others = [] if state.replica_set is None else [one for one in state.replica_set.replicas if one is not state]
    if not others:
        return None
    other = choose_replica(others, now)
    return other if can_answer(other, now) else None


def better_replica(state: ServeState, now: float) -> ServeState | None:
    """The replica that the requests waiting for this one join, because that one serves them, or is started with less
    disturbance; None: they stay.
    """
    if state.takes_requests() and state.phase in (ServePhase.READY, ServePhase.STARTING):
        return None
    other = sibling_for_waiting(state, now)
    if other is None or other.phase in (ServePhase.READY, ServePhase.STARTING):
        return other
    return other if place(other, now).suitability < place(state, now).suitability else None


def can_answer(state: ServeState, now: float) -> bool:
    """Whether a replica takes requests, and is ready, starts, or may be started."""
    if state.phase in (ServePhase.READY, ServePhase.STARTING):
        return state.takes_requests()
    return place(state, now).suitability < Suitability.BACKS_OFF


class ExtraReplica(NamedTuple):
    """Whether one more replica is started: `state` now, or nobody until `at` (infinity: until something happens)."""

    state: ServeState | None
    victims: tuple[ServeState, ...]
    at: float


NO_EXTRA = ExtraReplica(None, (), float("inf"))
_ROUNDING = 1e-6
"""Seconds."""


def extra_replica(replicas: ReplicaSet, now: float) -> ExtraReplica:
    """Whether one more replica of a serve is started.

    1. as many as allowed are loaded, or one starts, drains or stops -> no
    2. no request waits for a place on a ready one                   -> no
    3. nowhere does it fit, not even if idle serves stop; or another serve waits for each such place -> no
    4. the waiting requests have waited less, all together, than `patience` times its swap time      -> not yet
    5. its victims are inside their residency, or were used just now -> not yet
    6. otherwise                                                     -> now

    4 is the ski-rental rule: it costs at most about twice what somebody who knew the future would pay.
    """
    ready = [state for state in replicas.replicas if state.phase is ServePhase.READY]
    stopped = [state for state in replicas.replicas if state.phase is ServePhase.STOPPED]
    if not ready or replicas.is_complete() or len(ready) + len(stopped) < len(replicas.replicas):
        return NO_EXTRA  # 1
    waiting = [waiter for state in ready for waiter in state.queue.values() if not waiter.is_background]
    if not waiting:
        return NO_EXTRA  # 2
    open_places = [state for state in stopped if _is_open_to_extra(state, now)]
    if not open_places:
        return NO_EXTRA  # 3
    target = min(open_places, key=lambda state: place(state, now))
    price = target.slot_state.slot.swap.patience * measured_swap_time(target)
    paid = sum(now - waiter.since for waiter in waiting)
    if paid + _ROUNDING < price:
        return ExtraReplica(None, (), now + (price - paid) / len(waiting))  # 4
    fit = victims_for(target)
    victims = fit.serves if isinstance(fit, Victims) else ()
    at = max((_evictable_at(victim, target) for victim in victims), default=now)
    return ExtraReplica(target, victims, now) if at <= now else ExtraReplica(None, (), at)  # 5, 6


def _is_open_to_extra(state: ServeState, now: float) -> bool:
    if state.gives_way() or state.is_clearing():
        return False
    return place(state, now).suitability <= Suitability.IDLE_VICTIMS


def _evictable_at(victim: ServeState, target: ServeState) -> float:
    if victim.is_unused(LoadReason.IDLE):
        return 0.0
    idle_at = victim.unused_since + linger(victim, target, 1)
    return max(residency_ends(victim), idle_at) if has_residency(victim) else idle_at


def _is_full(state: ServeState) -> bool:
    """Whether it refuses a request."""
    serve = state.serve
    return not state.has_place() and (serve.queue_timeout <= 0 or len(state.queue) >= serve.queue)


def _load(state: ServeState) -> int:
    return state.active + len(state.queue)
