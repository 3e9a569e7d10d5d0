"""To run X beside these, who must stop? A question, not an action."""

from __future__ import annotations

from typing import NamedTuple

from stoker.request.lease.state import ServePhase, ServeState
from stoker.request.lease.timing import timing


class Victims(NamedTuple):
    """These must go, cheapest choice first; empty: it fits as it is."""

    serves: tuple[ServeState, ...]


class Later(NamedTuple):
    """It will fit once what is starting or stopping now is done."""


class Never(NamedTuple):
    """It cannot fit while the configuration stays as it is."""

    shortfall: int
    reason: str


def fits(target: ServeState) -> bool:
    """Whether it can run beside everything that is there."""
    return _missing(target) <= 0


def _missing(target: ServeState) -> int:
    room = target.slot_state
    return room.used + target.weight - room.budget


def victims_for(target: ServeState) -> Victims | Later | Never:
    """Who must stop so that `target` fits its slot's budget.

    1. fits beside everything that is there     -> nobody
    2. larger than the budget less the pins     -> Never, with the shortfall; a resident's own memory is credit
    3. enough by stopping ready residents       -> the cheapest of them
    4. otherwise something is on its way in or out -> Later
    """
    room, missing = target.slot_state, _missing(target)
    if missing <= 0:
        return Victims(())  # 1
    pins = [s for s in room.serves if s.serve.keep_loaded and s is not target and s.phase is not ServePhase.STOPPED]
    shortfall = sum(s.weight for s in pins) + target.weight - room.budget
    if shortfall > 0:
        return Never(shortfall, _explain(target, pins, shortfall))  # 2
    evictable = [s for s in room.serves if s.phase is ServePhase.READY and s not in pins]
    if sum(s.weight for s in evictable) < missing:
        return Later()  # 4
    chosen: list[ServeState] = []
    for seat in sorted(evictable, key=_cost):
        if missing <= 0:
            break
        chosen.append(seat)
        missing -= seat.weight
    for seat in sorted(chosen, key=lambda s: s.weight):  # a small early choice may have become needless
        if missing + seat.weight <= 0:
            chosen.remove(seat)
            missing += seat.weight
    return Victims(tuple(chosen))  # 3


def _cost(seat: ServeState) -> tuple[bool, float, float, str]:
    """Idle before busy, then longest unused, then cheapest to bring back."""
    return (seat.is_used(), seat.idle_since, timing(seat).swap_time, seat.name)


def _explain(target: ServeState, pins: list[ServeState], shortfall: int) -> str:
    slot = target.slot_state.slot
    beside = f" beside {', '.join(s.name for s in pins)} (keep_loaded)" if pins else ""
    if slot.memory is None:
        return f"serve '{target.name}' does not fit slot '{slot.name}'{beside}"
    return (
        f"serve '{target.name}' needs {_size(target.weight)} of slot '{slot.name}' ({_size(slot.memory)}){beside}: "
        f"{_size(shortfall)} short"
    )


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
