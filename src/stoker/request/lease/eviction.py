"""Which residents must stop so that a serve fits its slot. Only answers the question; changes nothing.

Two rules say what fits: the slot's `memory`, and the sets of `together`. Where a slot has both, both hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from stoker.domain import figures
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease.state import ReplicaSet, ServeState, SlotState
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
    sets: list[Collection[str]] = [group for group in slot_state.slot.together if group.issuperset(stay)]
    return sets if pins else [*sets, stay]


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
            _Partial(min(choice.freed + size, needed), choice.cost + cost, (*choice.victims, state))
            for choice in best
            if choice.freed < needed
        ]
        candidates = sorted([*best, *grown], key=lambda choice: (choice.cost, -choice.freed))
        best = []
        for choice in candidates:
            if not best or choice.freed > best[-1].freed:
                best.append(choice)
    return best[-1].victims if best[-1].freed >= needed else None


class Victims(NamedTuple):
    """These must stop, the cheapest to lose first; empty: the target fits beside what is loaded."""

    serves: tuple[ServeState, ...]
    stops_kept: bool = False
    """Some are replicas that are kept loaded: the target could not run there otherwise."""


class FitsAfter(NamedTuple):
    """The target will fit when a start or stop that is under way has ended."""


class DoesNotFit(NamedTuple):
    """The target cannot fit with this configuration. `shortfall`: in the unit of the slot's budget; 0 if its memory
    would suffice, but `together` does not permit it.
    """

    shortfall: int
    reason: str


def fits(target: ServeState, others: Collection[ServeState] = ()) -> bool:
    """Whether the target can run beside everything that is loaded, and beside `others`, if these were loaded, too."""
    return all(_fits_in(slot_state, target, others) for slot_state in target.slot_states)


def _fits_in(slot_state: SlotState, target: ServeState, others: Collection[ServeState]) -> bool:
    here = [state for state in others if slot_state in state.slot_states] if others else []
    missing = _missing(slot_state, target, ()) + slot_state.sizes(here)
    return missing <= 0 and _may_join(slot_state, target, (), here)


def _missing(slot_state: SlotState, target: ServeState, gone: Collection[ServeState]) -> int:
    freed = slot_state.sizes(state for state in gone if slot_state in state.slot_states) if gone else 0
    return slot_state.used - freed + target.size_in(slot_state) - slot_state.budget


def _may_join(
    slot_state: SlotState, target: ServeState, gone: Collection[ServeState], more: Collection[ServeState] = ()
) -> bool:
    if not slot_state.slot.together:
        return True
    loaded = {s.name for s in slot_state.live if s.phase is not ServePhase.STOPPED and s not in gone}
    return slot_state.slot.allows(loaded | {state.name for state in more} | {target.name})


def cost_decides(slot_state: SlotState) -> bool:
    """Whether those stop that cost the least, not those that were unused for longest."""
    if slot_state.slot.together:
        return True
    if slot_state.has_evict_costs is None:
        slot_state.has_evict_costs = any(state.serve.evict_cost is not None for state in slot_state.serves)
    return slot_state.has_evict_costs


def victims_for(target: ServeState) -> Victims | FitsAfter | DoesNotFit:
    """The residents that must stop so that `target` fits. In each slot that it takes:

    1. it fits beside everything that is loaded  -> nobody
    2. it does not fit beside the pins           -> DoesNotFit (other residents count as free). Replicas that are kept
                                                    loaded are pins, too, if it fits beside them
    3. it fits if ready residents stop           -> with `together` or an `evict_cost` in the slot: those with the
                                                    least total cost; else idle ones before busy ones, then the longest
                                                    unused
    4. otherwise something is starting or stopping -> FitsAfter

    If it takes several slots, the answer is for all of them at once: nobody stops before all of them can be had.
    A victim that is in several of them is counted once. The answer holds until something changes in these slots.
    """
    group = target.slot_state.group
    version = group.version
    if target.fit is not None and target.fit[0] is group and target.fit[1] == version:
        answer: Victims | FitsAfter | DoesNotFit = target.fit[2]
        return answer
    fit = _victims_in(target.slot_state, target, ()) if not target.more_slots else _victims_in_all(target)
    target.fit = group, version, fit
    return fit


def _victims_in_all(target: ServeState) -> Victims | FitsAfter | DoesNotFit:
    gone: tuple[ServeState, ...] = ()
    is_later = stops_kept = False
    for slot_state in target.slot_states:
        fit = _victims_in(slot_state, target, gone)
        if isinstance(fit, DoesNotFit):
            return fit
        if isinstance(fit, FitsAfter):
            is_later = True
        else:
            gone, stops_kept = (*gone, *fit.serves), stops_kept or fit.stops_kept
    return FitsAfter() if is_later else Victims(gone, stops_kept)


def _victims_in(
    slot_state: SlotState, target: ServeState, gone: Collection[ServeState]
) -> Victims | FitsAfter | DoesNotFit:
    """As `victims_for`, in one slot. `gone`: those that stop for it anyway."""
    missing = _missing(slot_state, target, gone)
    if missing <= 0 and _may_join(slot_state, target, gone):
        return Victims(())  # 1
    pins = _pins_in(slot_state, target) if has_kept_serves(slot_state) else []
    shortfall = slot_state.sizes(pins) + target.size_in(slot_state) - slot_state.budget
    if shortfall > 0:
        return DoesNotFit(shortfall, _explain_memory(slot_state, target, pins, shortfall))  # 2
    if slot_state.slot.together and not slot_state.slot.allows({target.name, *(s.name for s in pins)}):
        return DoesNotFit(0, _explain_sets(slot_state, target, pins))  # 2
    kept = kept_in(slot_state, target, gone) if has_kept_serves(slot_state) else []
    if kept and _fits_beside(slot_state, target, [*pins, *kept]):
        pins, kept = [*pins, *kept], []
    if cost_decides(slot_state):
        chosen = cheapest_victims(slot_state, target, pins, gone, missing)
    else:
        evictable = [s for s in slot_state.live if s.phase is ServePhase.READY]
        if pins or gone:
            evictable = [state for state in evictable if state not in pins and state not in gone]
        chosen = _longest_unused(slot_state, evictable, missing)
    if chosen is None:
        return FitsAfter()  # 4
    return Victims(chosen, any(state in kept for state in chosen))  # 3


def has_kept_serves(slot_state: SlotState) -> bool:
    """Whether `keep_loaded` or `min_replicas` is set in the slot."""
    if slot_state.has_kept_serves is None:
        serves = [state.serve for state in slot_state.serves]
        slot_state.has_kept_serves = any(serve.keep_loaded or serve.min_replicas for serve in serves)
    return slot_state.has_kept_serves


def _pins_in(slot_state: SlotState, target: ServeState) -> list[ServeState]:
    loaded = [state for state in slot_state.live if state.phase is not ServePhase.STOPPED]
    return [state for state in loaded if state.serve.keep_loaded and state is not target]


def kept_in(slot_state: SlotState, target: ServeState, gone: Collection[ServeState]) -> list[ServeState]:
    """The replicas in a slot that are kept loaded, if `gone` stop. Of one serve's, those that would stop last."""
    here = [s for s in slot_state.live if s.serve.min_replicas and s.counts_as_kept() and s not in gone]
    kept: list[ServeState] = []
    spare: dict[ReplicaSet, int] = {}
    for state in sorted(here, key=_by_use):
        if state.replica_set is None or state.replica_set is target.replica_set:
            continue
        spare[state.replica_set] = spare.get(state.replica_set, state.replica_set.spare(gone)) - 1
        if spare[state.replica_set] < 0:
            kept.append(state)
    return kept


def _fits_beside(slot_state: SlotState, target: ServeState, pins: Collection[ServeState]) -> bool:
    if slot_state.sizes(pins) + target.size_in(slot_state) > slot_state.budget:
        return False
    return slot_state.slot.allows({target.name, *(state.name for state in pins)})


def _longest_unused(slot_state: SlotState, evictable: list[ServeState], missing: int) -> tuple[ServeState, ...] | None:
    """None: all together are too small."""
    first = min(evictable, key=_by_use, default=None)
    if first is not None and missing <= first.size_in(slot_state):
        return (first,)
    if slot_state.sizes(evictable) < missing:
        return None
    chosen: list[ServeState] = []
    for state in sorted(evictable, key=_by_use):
        if missing <= 0:
            break
        chosen.append(state)
        missing -= state.size_in(slot_state)
    for state in sorted(chosen, key=lambda s: s.size_in(slot_state)):  # an early small choice may no longer be needed
        if missing + state.size_in(slot_state) <= 0:
            chosen.remove(state)
            missing += state.size_in(slot_state)
    return tuple(chosen)


def _by_use(state: ServeState) -> tuple[bool, bool, float, float, str]:
    """Idle before busy, then replicas beside a ready one, then longest unused, then cheapest to bring back."""
    is_used = bool(state.queue) or len(state.leases) > len(state.preemptible)  # `is_used`, hot
    return (is_used, not state.is_extra(), state.unused_since, evict_cost(state), state.serve.name)


def _explain_memory(slot_state: SlotState, target: ServeState, pins: list[ServeState], shortfall: int) -> str:
    slot = slot_state.slot
    if slot.memory is None:
        return f"serve '{target.name}' does not fit slot '{slot.name}'{_beside(pins)}"
    return (
        f"serve '{target.name}' needs {figures.size(target.size_in(slot_state))} "
        f"of slot '{slot.name}' ({figures.size(slot.memory)})"
        f"{_beside(pins)}: {figures.size(shortfall)} short"
    )


def _explain_sets(slot_state: SlotState, target: ServeState, pins: list[ServeState]) -> str:
    return (
        f"serve '{target.name}' cannot be loaded{_beside(pins)}: "
        f"no set of `together` of slot '{slot_state.slot.name}' has them all"
    )


def _beside(pins: list[ServeState]) -> str:
    return f" beside {', '.join(s.name for s in pins)} (keep_loaded)" if pins else ""
