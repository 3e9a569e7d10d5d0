"""Which residents must stop so that a serve fits its slot. Only answers the question; changes nothing.

Two rules say what fits: the slot's `memory`, and the sets of `together`. Where a slot has both, both hold.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.lease.cheapest_victims import cheapest_victims, evict_cost
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ServeState, SlotState


class Victims(NamedTuple):
    """These must stop, the cheapest to lose first; empty: the target fits beside what is loaded."""

    serves: tuple[ServeState, ...]


class Later(NamedTuple):
    """The target will fit when a start or stop that is under way has ended."""


class Never(NamedTuple):
    """The target cannot fit with this configuration. `shortfall`: in the unit of the slot's budget; 0 if its memory
    would suffice, but `together` does not permit it.
    """

    shortfall: int
    reason: str


def fits(target: ServeState) -> bool:
    """Whether the target can run beside everything that is loaded."""
    return _missing(target) <= 0 and _may_join(target)


def _missing(target: ServeState) -> int:
    slot_state = target.slot_state
    return slot_state.used + target.size - slot_state.budget


def _may_join(target: ServeState) -> bool:
    slot_state = target.slot_state
    if not slot_state.slot.together:
        return True
    loaded = {state.name for state in slot_state.serves if state.phase is not ServePhase.STOPPED}
    return slot_state.slot.allows(loaded | {target.name})


def cost_decides(slot_state: SlotState) -> bool:
    """Whether those stop that cost the least, not those that were unused for longest."""
    slot = slot_state.slot
    return bool(slot.together) or any(state.serve.evict_cost is not None for state in slot_state.serves)


def victims_for(target: ServeState) -> Victims | Later | Never:
    """The residents that must stop so that `target` fits its slot.

    1. it fits beside everything that is loaded  -> nobody
    2. it does not fit beside the pins           -> Never (other residents count as free)
    3. it fits if ready residents stop           -> with `together` or an `evict_cost` in the slot: those with the
                                                    least total cost; else idle ones before busy ones, then the longest
                                                    unused
    4. otherwise something is starting or stopping -> Later
    """
    slot_state, missing = target.slot_state, _missing(target)
    if missing <= 0 and _may_join(target):
        return Victims(())  # 1
    pins = [
        s for s in slot_state.serves if s.serve.keep_loaded and s is not target and s.phase is not ServePhase.STOPPED
    ]
    shortfall = sum(s.size for s in pins) + target.size - slot_state.budget
    if shortfall > 0:
        return Never(shortfall, _explain_memory(target, pins, shortfall))  # 2
    if not slot_state.slot.allows({target.name, *(s.name for s in pins)}):
        return Never(0, _explain_sets(target, pins))  # 2
    if cost_decides(slot_state):
        chosen = cheapest_victims(target, pins, missing)
        return Later() if chosen is None else Victims(chosen)  # 3, 4
    evictable = [s for s in slot_state.serves if s.phase is ServePhase.READY and s not in pins]
    if sum(s.size for s in evictable) < missing:
        return Later()  # 4
    return Victims(_longest_unused(evictable, missing))  # 3


def _longest_unused(evictable: list[ServeState], missing: int) -> tuple[ServeState, ...]:
    chosen: list[ServeState] = []
    for state in sorted(evictable, key=_by_use):
        if missing <= 0:
            break
        chosen.append(state)
        missing -= state.size
    for state in sorted(chosen, key=lambda s: s.size):  # an early small choice may no longer be needed
        if missing + state.size <= 0:
            chosen.remove(state)
            missing += state.size
    return tuple(chosen)


def _by_use(state: ServeState) -> tuple[bool, bool, float, float, str]:
    """Idle before busy, then replicas beside a ready one, then longest unused, then cheapest to bring back."""
    return (state.is_used(), not state.is_extra(), state.unused_since, evict_cost(state), state.name)


def _explain_memory(target: ServeState, pins: list[ServeState], shortfall: int) -> str:
    slot = target.slot_state.slot
    if slot.memory is None:
        return f"serve '{target.name}' does not fit slot '{slot.name}'{_beside(pins)}"
    return (
        f"serve '{target.name}' needs {_size(target.size)} of slot '{slot.name}' ({_size(slot.memory)})"
        f"{_beside(pins)}: {_size(shortfall)} short"
    )


def _explain_sets(target: ServeState, pins: list[ServeState]) -> str:
    return (
        f"serve '{target.name}' cannot be loaded{_beside(pins)}: "
        f"no set of `together` of slot '{target.slot_state.slot.name}' has them all"
    )


def _beside(pins: list[ServeState]) -> str:
    return f" beside {', '.join(s.name for s in pins)} (keep_loaded)" if pins else ""


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
