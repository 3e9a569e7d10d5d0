"""Which residents must stop so that a serve fits its slot. Only answers the question; changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.lease.phases import ServePhase
from stoker.request.lease.state import ServeState
from stoker.request.lease.timing import timing


class Victims(NamedTuple):
    """These must stop, the cheapest to lose first; empty: the target fits beside what is loaded."""

    serves: tuple[ServeState, ...]


class Later(NamedTuple):
    """The target will fit when a start or stop that is under way has ended."""


class Never(NamedTuple):
    """The target cannot fit with this configuration. `shortfall`: in the unit of the slot's budget."""

    shortfall: int
    reason: str


def fits(target: ServeState) -> bool:
    """Whether the target can run beside everything that is loaded."""
    return _missing(target) <= 0


def _missing(target: ServeState) -> int:
    slot_state = target.slot_state
    return slot_state.used + target.size - slot_state.budget


def victims_for(target: ServeState) -> Victims | Later | Never:
    """The residents that must stop so that `target` fits its slot's budget.

    1. it fits beside everything that is loaded  -> nobody
    2. larger than the budget less the pins      -> Never, with the shortfall (other residents count as free)
    3. it fits if ready residents stop           -> the cheapest of them
    4. otherwise something is starting or stopping -> Later
    """
    slot_state, missing = target.slot_state, _missing(target)
    if missing <= 0:
        return Victims(())  # 1
    pins = [
        s for s in slot_state.serves if s.serve.keep_loaded and s is not target and s.phase is not ServePhase.STOPPED
    ]
    shortfall = sum(s.size for s in pins) + target.size - slot_state.budget
    if shortfall > 0:
        return Never(shortfall, _explain(target, pins, shortfall))  # 2
    evictable = [s for s in slot_state.serves if s.phase is ServePhase.READY and s not in pins]
    if sum(s.size for s in evictable) < missing:
        return Later()  # 4
    chosen: list[ServeState] = []
    for state in sorted(evictable, key=_cost):
        if missing <= 0:
            break
        chosen.append(state)
        missing -= state.size
    for state in sorted(chosen, key=lambda s: s.size):  # an early small choice may no longer be needed
        if missing + state.size <= 0:
            chosen.remove(state)
            missing += state.size
    return Victims(tuple(chosen))  # 3


def _cost(state: ServeState) -> tuple[bool, float, float, str]:
    """Idle before busy, then longest unused, then cheapest to bring back."""
    return (state.is_used(), state.idle_since, timing(state).swap_time, state.name)


def _explain(target: ServeState, pins: list[ServeState], shortfall: int) -> str:
    slot = target.slot_state.slot
    beside = f" beside {', '.join(s.name for s in pins)} (keep_loaded)" if pins else ""
    if slot.memory is None:
        return f"serve '{target.name}' does not fit slot '{slot.name}'{beside}"
    return (
        f"serve '{target.name}' needs {_size(target.size)} of slot '{slot.name}' ({_size(slot.memory)}){beside}: "
        f"{_size(shortfall)} short"
    )


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
