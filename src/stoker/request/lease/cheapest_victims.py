"""The residents that are the cheapest to stop, where several choices would make room. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ServeState, SlotState
from stoker.request.lease.timing import measured_swap_time

LEAVING = (ServePhase.DRAINING, ServePhase.STOPPING)


def evict_cost(state: ServeState) -> float:
    """What stopping a resident costs: what its configuration says, else the seconds that it takes to bring it back."""
    configured = state.serve.evict_cost
    return measured_swap_time(state) if configured is None else configured


def worth(state: ServeState, now: float) -> float:
    """What keeping a resident is worth: what stopping it costs, per second until it is expected to be used: as long as
    it is unused now, and its usual gap.
    """
    unused = 0.0 if state.is_used() else now - state.unused_since
    return evict_cost(state) / (unused + (state.usual_gap or 0.0) + 1.0)


def cheapest_victims(
    slot_state: SlotState,
    target: ServeState,
    pins: Collection[ServeState],
    gone: Collection[ServeState],
    missing: int,
) -> tuple[ServeState, ...] | None:
    """Who else than `gone` must stop, so that what stays loaded and `target` are within one set of `together`, and
    their sizes within the slot's budget, of which `missing` is taken at the moment. None: only when a start or stop
    under way has ended.

    Of all choices: idle residents before busy ones, then the least total cost, then the longest unused. Serves that
    stop already cost nothing; if the best choice depends on them, the answer is None. `pins` are never chosen.
    """
    loaded = [s for s in slot_state.live if s is not target and s.phase is not ServePhase.STOPPED and s not in gone]
    choices = (_choice(slot_state, loaded, pins, group, missing) for group in _groups(slot_state, target, pins))
    best = min((choice for choice in choices if choice is not None), default=None, key=_rank)
    return None if best is None or best.is_later else tuple(sorted(best.victims, key=evict_cost))


class _Choice(NamedTuple):
    victims: tuple[ServeState, ...]
    is_later: bool
    """It is possible only when those that are stopping now are gone."""


def _rank(choice: _Choice) -> tuple[bool, float, float]:
    victims = choice.victims
    return (
        any(v.is_used() for v in victims),
        sum(map(evict_cost, victims)),
        max((v.unused_since for v in victims), default=0.0),
    )


def _groups(slot_state: SlotState, target: ServeState, pins: Collection[ServeState]) -> Iterable[Collection[str]]:
    """The sets within which the slot may be afterwards."""
    if not slot_state.slot.together:
        return [{state.name for state in slot_state.serves}]
    stay = {target.name, *(pin.name for pin in pins)}
    found: list[Collection[str]] = [group for group in slot_state.slot.together if group.issuperset(stay)]
    return found if pins else [*found, stay]


def _choice(
    slot_state: SlotState,
    loaded: Sequence[ServeState],
    pins: Collection[ServeState],
    group: Collection[str],
    missing: int,
) -> _Choice | None:
    """The cheapest victims if what stays is to be within `group`; None: a start that is under way prevents it."""
    outside = [state for state in loaded if state.name not in group]
    if any(state.phase is ServePhase.STARTING for state in outside):
        return None
    forced = tuple(state for state in outside if state.phase is ServePhase.READY)
    evictable = [s for s in loaded if s.phase is ServePhase.READY and s not in forced and s not in pins]
    leaving = [state for state in loaded if state.phase in LEAVING]
    needed = missing - slot_state.sizes(leaving) - slot_state.sizes(forced)
    by_use = sorted(evictable, key=attrgetter("unused_since"))
    more = least_total(slot_state, [state for state in by_use if not state.is_used()], needed)
    if more is None:
        more = least_total(slot_state, by_use, needed)
    if more is None:
        return None
    victims = (*forced, *more)
    is_later = any(state in outside for state in leaving) or missing > slot_state.sizes(victims)
    return _Choice(victims, is_later)


class _Partial(NamedTuple):
    freed: int
    cost: float
    victims: tuple[ServeState, ...]


def least_total(slot_state: SlotState, states: Sequence[ServeState], needed: int) -> tuple[ServeState, ...] | None:
    """Of these, those with the least total cost whose sizes in the slot add up to `needed`; None: all together are too
    small.

    Exact: Nemhauser and Ullmann, "Discrete Dynamic Programming and Capital Allocation" (1969). A choice that frees no
    more than a cheaper one is dropped, so few are left. Of equal ones the first in the order of `states` wins.
    """
    if needed <= 0:
        return ()
    best = [_Partial(0, 0.0, ())]
    for state in states:
        size, cost = state.size_in(slot_state), evict_cost(state)
        grown = [
            _Partial(min(one.freed + size, needed), one.cost + cost, (*one.victims, state))
            for one in best
            if one.freed < needed
        ]
        candidates = sorted([*best, *grown], key=lambda one: (one.cost, -one.freed))
        best = []
        for one in candidates:
            if not best or one.freed > best[-1].freed:
                best.append(one)
    return best[-1].victims if best[-1].freed >= needed else None
