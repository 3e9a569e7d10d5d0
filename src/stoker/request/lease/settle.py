"""The one decision: it sees every seat, and says what happens now and when to ask again.

    1. waiters past their deadline are refused
    2. a swap that nobody wants any more is taken back (still draining) or cancelled (others wait because of it)
    3. ready serves grant their waiters, first come first served; where a place lacks, leases that yield are cut for it
    4. stopped serves that somebody waits for start, if they fit; else the eviction question, then the hysteresis one
    5. serves idle for `idle_unload` are stopped
    6. leases that yield do not hold up a drain: cut. Drains that are over (empty, or at their deadline: cut) become
       running swaps
    7. the next time at which any of this can change by itself becomes WakeAt

Order of starting within a slot: switches, then models past `max_wait` (oldest first), then by oldest waiter, preloads
last. At most one swap with victims is under way in a slot; a victim's memory counts until it is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.request.lease import refusals
from stoker.request.lease.commands import CancelSwap, CheckStart, Command, Grant, Reject, WakeAt
from stoker.request.lease.eviction import Never, Victims, victims_for
from stoker.request.lease.hysteresis import may_evict
from stoker.request.lease.state import ServePhase, ServeState, SlotState, SwapKind, Want
from stoker.request.lease.timing import timing
from stoker.request.lease.transitions import Transitions

FOREVER = float("inf")


class Settler(Transitions):
    """The seats with the decision function over them."""

    wake: float | None = None
    closing = False

    def settle(self, now: float) -> list[Command]:
        """The one decision function; the module's docstring has its seven steps."""
        commands: list[Command] = []
        times: list[float] = []
        for seat in self.serves.values():
            commands += self._expire(seat, now, times)  # 1
        for room in self.slots.values():
            if room.serves:
                commands += self._unwanted(room, now)  # 2
                commands += self._grants(room)  # 3
                commands += self._starts(room, now, times)  # 4
                self._idle(room, now, times)  # 5
                commands += self._drains(room, now, times)  # 6
        at = min(times, default=None)
        if at != self.wake:
            self.wake = at
            commands.append(WakeAt(at))  # 7
        return commands

    def _expire(self, seat: ServeState, now: float, times: list[float]) -> list[Command]:
        commands: list[Command] = []
        for waiter in list(seat.queue.values()):
            if waiter.deadline <= now:
                del seat.queue[waiter.id]
                commands.append(Reject(waiter.id, refusals.expired(seat, waiter, now)))
            elif waiter.deadline < FOREVER:
                times.append(waiter.deadline)
        return commands

    def _unwanted(self, room: SlotState, now: float) -> list[Command]:
        commands: list[Command] = []
        for swap in list(room.swaps.values()):
            target = swap.target
            if target is None or swap.kind is not SwapKind.DEMAND or swap.cancelled or target.queue or target.wanted:
                continue
            if swap.run_at is None:
                self.call_off(swap, now)
            elif any(s.queue and s.phase is ServePhase.STOPPED for s in room.serves):
                swap.cancelled = True
                commands.append(CancelSwap(swap.generation))
        return commands

    def _grants(self, room: SlotState) -> list[Command]:
        commands: list[Command] = []
        for seat in room.serves:
            if seat.phase is not ServePhase.READY:
                continue
            for waiter in list(seat.queue.values()):
                if waiter.want is Want.REQUEST and waiter.counted and not seat.has_place():
                    commands += self.cut_yielding(seat)
                if waiter.want is Want.SWITCH:
                    commands.append(Grant(waiter.id))
                elif not waiter.counted or seat.has_place():
                    self.add_lease(seat, waiter.id, waiter.counted)
                    commands.append(Grant(waiter.id))
                else:
                    continue
                del seat.queue[waiter.id]
        return commands

    def _starts(self, room: SlotState, now: float, times: list[float]) -> list[Command]:
        commands: list[Command] = []
        if self.closing:
            return commands
        for seat in sorted((s for s in room.serves if s.phase is ServePhase.STOPPED and _is_needed(s)), key=_turn(now)):
            if now < seat.backoff_until:
                times.append(seat.backoff_until)
                continue
            fit = victims_for(seat)
            if isinstance(fit, Never):
                commands += self.refuse_all(seat, refusals.no_fit(fit))
                seat.wanted = False
            elif isinstance(fit, Victims):
                times.append(self._start(seat, fit.serves, now))
        return commands

    def _start(self, seat: ServeState, victims: tuple[ServeState, ...], now: float) -> float:
        """Decide the swap if it may be; else the time at which to ask again."""
        if victims:
            if seat.slot_state.is_clearing():
                return FOREVER
            verdict = may_evict(seat, victims, now)
            if not verdict.now:
                return verdict.at
        own = (w.drain_timeout for w in seat.queue.values() if w.drain_timeout is not None)
        drain = min(own, default=seat.slot_state.slot.swap.drain_timeout)
        self.open_swap(SwapKind.DEMAND, seat, victims, now, drain)
        return FOREVER

    def _idle(self, room: SlotState, now: float, times: list[float]) -> None:
        for seat in room.serves:
            idle = seat.serve.idle_unload
            if idle is None or seat.phase is not ServePhase.READY or seat.is_used() or seat.wanted:
                continue
            due = max(seat.idle_since, seat.ready_since) + idle
            if now >= due:
                self.open_swap(SwapKind.UNLOAD, None, (seat,), now, 0.0)
            else:
                times.append(due)

    def _drains(self, room: SlotState, now: float, times: list[float]) -> list[Command]:
        commands: list[Command] = []
        for swap in room.swaps.values():
            if swap.run_at is not None:
                continue
            for victim in swap.victims:
                commands += self.cut_yielding(victim)
            busy = [v for v in swap.victims if v.leases]
            if busy and now < swap.drain_deadline:
                times.append(swap.drain_deadline)
                if swap.target is not None and not swap.check_started:
                    swap.check_started = True
                    commands.append(CheckStart(swap.generation, swap.target.name))
                continue
            commands += [self.cut_leases(v, refusals.swap_reason(swap)) for v in busy]
            commands.append(self.run_swap(swap, now))
        return commands


def _is_needed(seat: ServeState) -> bool:
    return bool(seat.queue or seat.wanted) and not seat.removed and not seat.parked


def _turn(now: float) -> Callable[[ServeState], tuple[bool, bool, float, str]]:
    """Switches, then models past `max_wait`, oldest first; then by oldest waiter; preloads last."""

    def key(seat: ServeState) -> tuple[bool, bool, float, str]:
        is_switch = any(w.want is Want.SWITCH for w in seat.queue.values())
        is_overdue = seat.oldest + timing(seat).max_wait <= now
        return (not is_switch, not is_overdue, seat.oldest, seat.name)

    return key
