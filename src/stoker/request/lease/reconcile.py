"""The one decision function: it sees all serves, decides what happens now, and returns when it must be called again.

    1. waiters whose serve was loaded or lost wait for a place or a load from now on; those past their deadline are
       refused
    2. requests that wait for a replica which cannot serve them join another one (serves with several places only)
    3. a swap whose target no request waits for any more is called off while its victims drain; later it is cancelled,
       but only if requests wait for another serve of the slot
    4. ready serves grant their waiters in the order of `waiting_order`; if no place is free, preemptible leases are cut
    5. stopped serves with waiters, and those that are to be loaded, are started: `eviction` says which residents must
       stop, `timing` whether they may stop now; a preload is dropped once another serve of the slot was used;
       one more replica of a serve is started in an empty slot, once its waiting requests have paid for it, or if fewer
       are loaded than are kept
    6. serves that were idle for `idle_unload` are stopped; a slot that was idle for `idle_serve_after` returns to its
       `idle_serve`, if another serve was used in its place
    7. preemptible leases of victims are cut. A drain is over when no lease is left, or at its deadline (the remaining
       leases are cut): then the swap runs
    8. waiters whose serve has to stop wait for its load from now on; the next time at which any of this can change
       without an event becomes WakeAt

Slots that a serve takes together are decided together. Serves start in this order: switches; models past `max_wait`,
the oldest first; then by oldest waiter; those that only background requests wait for; preloads last. At most one swap
that stops residents for another model is under way in a slot. A victim's memory counts until it is free.

Background requests give way: while another request waits for a serve of the slot that is not ready, none is granted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.domain.serve import Serve, Slot
from stoker.request.lease import refusals
from stoker.request.lease.commands import CancelSwap, CheckStart, Command, Grant, Reject, WakeAt
from stoker.request.lease.eviction import Later, Never, Victims, victims_for
from stoker.request.lease.phases import ServePhase
from stoker.request.lease.replica_steps import ReplicaSteps
from stoker.request.lease.state import LoadReason, ServeState, SlotGroup, SlotState, SwapKind
from stoker.request.lease.timing import idle_serve_retry, max_wait, may_evict
from stoker.request.lease.waiter import Want

FOREVER = float("inf")
_NOT_LOADED = (ServePhase.STOPPED, ServePhase.STOPPING)


class Reconciler(ReplicaSteps):
    """Adds the decision function to the serves, slots and steps."""

    wake: float | None = None
    closing = False
    is_below_minimum = False
    """Whether fewer replicas of a serve are loaded than are kept."""

    def __init__(self, slots: Iterable[Slot], serves: Iterable[Serve]) -> None:
        super().__init__(slots, serves)
        self._decided: dict[SlotGroup, None] = {}
        """In the decision that is under way."""
        self._first_wake = FOREVER
        """Of all groups."""

    def reconcile(self, now: float) -> list[Command]:
        """The decision function. The module's docstring has its numbered steps."""
        commands: list[Command] = []
        groups = self.slot_groups()
        due = groups[0].due if groups else {}
        if now >= self._first_wake:
            due.update((group, None) for group in groups if group.wake <= now)
        for group in due:
            for slot_state in group.slots:
                if slot_state.has_stale_live:
                    slot_state.clean_live()
        now_due = list(due)
        for state in self.waited_for():
            if state.slot_state.group in now_due:
                commands += self._expire(state, now)  # 1
        commands += self._move_waiting(now)  # 2
        last = -1
        while (number := min([group.number for group in due if group.number > last], default=-1)) >= 0:
            commands += self._decide(groups[number], now)
            last = number
        moved = self._move_waiting(now)
        if moved:  # an eviction was called off, or a start given up
            return [*commands, *moved, *self.reconcile(now)]
        times: list[float] = []
        for replicas in () if self.closing else self.replicas_waited_for():
            if replicas.is_short() and (slot := self.start_extra(replicas, now, times)) is not None:  # 5
                commands += self._advance_drains(slot, now)  # 7
        if self.kept_sets():
            commands += self._keep_minimum(now, times)  # 5, 7
        return [*commands, *self._wake_up_at(now, times)]

    def _move_waiting(self, now: float) -> list[Command]:
        """Step 2. Where replicas are kept loaded, more than what has changed in a serve's own slots counts."""
        commands: list[Command] = []
        for replicas in self.replicas_waited_for():
            if replicas.has_changed(now) or self.kept_sets():
                commands += self.move_waiting(replicas, now)
        return commands

    def _decide(self, group: SlotGroup, now: float) -> list[Command]:
        """Steps 3 to 7 for slots that are decided together. What they change is looked at again next time."""
        commands: list[Command] = []
        del group.due[group]
        group.times = []
        self._decided[group] = None
        for slot_state in group.slots:
            if slot_state.swaps:
                commands += self._call_off_unwanted(slot_state, now)  # 3
            commands += self._grant_waiters(slot_state)  # 4
        commands += self._start_needed(group, now)  # 5
        for slot_state in group.slots:
            self._stop_idle(slot_state, now)  # 6
            if slot_state.has_left_idle_serve:
                self._return_to_idle_serve(slot_state, now)  # 6
            if slot_state.swaps:
                commands += self._advance_drains(slot_state, now)  # 7
        return commands

    def _wake_up_at(self, now: float, times: list[float]) -> list[Command]:
        """Step 8. `times`: when something changes that no slot knows of."""
        groups = self.slot_groups()
        if groups:
            self._decided.update(groups[0].due)
        for group in self._decided:
            group.wake = min(group.times, default=FOREVER)
        for state in self.waiting:
            group = state.slot_state.group
            if group in self._decided:
                for waiter in state.queue.values():
                    self.update_wait(state, waiter, now)
                    group.wake = min(group.wake, waiter.deadline)
        self._first_wake = min([group.wake for group in groups], default=FOREVER)
        self._decided.clear()
        at = min([self._first_wake, *times])
        wake = None if at == FOREVER else at
        if wake == self.wake:
            return []
        self.wake = wake
        return [WakeAt(wake)]

    def _expire(self, state: ServeState, now: float) -> list[Command]:
        commands: list[Command] = []
        for waiter in list(state.queue.values()):
            self.update_wait(state, waiter, now)
            if waiter.deadline <= now:
                del state.queue[waiter.id]
                state.touch()
                commands.append(Reject(waiter.id, refusals.expired(state, waiter, now)))
        return commands

    def _call_off_unwanted(self, slot_state: SlotState, now: float) -> list[Command]:
        commands: list[Command] = []
        for swap in list(slot_state.swaps.values()):
            target = swap.target
            if target is None or swap.kind is not SwapKind.DEMAND or swap.cancelled or target.queue or target.wanted:
                continue
            if swap.run_at is None:
                self.call_off(swap, now)
            elif any(s.queue and s.phase in _NOT_LOADED for s in slot_state.live):
                swap.cancelled = True
                slot_state.group.touch()
                commands.append(CancelSwap(swap.swap_id))
        return commands

    def _grant_waiters(self, slot_state: SlotState) -> list[Command]:
        commands: list[Command] = []
        for state in slot_state.live:
            if state.phase is not ServePhase.READY or not state.queue:
                continue
            gives_way = state.gives_way()
            for waiter in state.waiting_order():
                if gives_way and waiter.is_background:
                    continue
                if waiter.want is Want.REQUEST and waiter.takes_place and state.preemptible and not state.has_place():
                    commands += self.cut_preemptible(state, waiter.share.priority)
                if waiter.want is Want.SWITCH:
                    commands.append(Grant(waiter.id))
                elif not waiter.takes_place or state.has_place():
                    self.add_lease(state, waiter.id, waiter.takes_place, waiter.share, waiter.body_bytes)
                    commands.append(Grant(waiter.id))
                else:
                    continue
                del state.queue[waiter.id]
                state.touch()
        return commands

    def _start_needed(self, group: SlotGroup, now: float) -> list[Command]:
        commands: list[Command] = []
        if self.closing:
            return commands
        needed = [
            s for slot in group.slots for s in slot.live if s.phase is ServePhase.STOPPED and (s.queue or s.wanted)
        ]
        if len(needed) > 1:
            needed = sorted(dict.fromkeys(needed), key=_start_order(now))
        reserved: list[SlotState] = []
        for state in needed:
            if state.removed or state.is_left_alone():
                continue
            if reserved and any(slot_state in reserved for slot_state in state.slot_states):
                continue
            if state.preload_asked_at == now:
                state.touch()  # whether it is stale is decided later
            if state.preload_asked_at is not None and _is_stale_preload(state, now):
                state.wanted = False
                state.touch()
                continue
            if now < state.backoff_until:
                group.times.append(state.backoff_until)
                continue
            if state.replica_set is not None and self.is_surplus(state, state.replica_set):
                continue
            fit = victims_for(state)
            if isinstance(fit, Never):
                commands += self.refuse_all(state, refusals.no_fit(fit))
                state.wanted = False
                state.touch()
            elif isinstance(fit, Victims):
                moved = self._move_kept(state, now, fit)
                commands += moved or ()
                if moved is None:
                    group.times.append(self._start(state, fit.serves, now))
            if state.more_slots and state.phase is ServePhase.STOPPED and _is_overdue(state, now):
                reserved += state.slot_states  # nobody else may clear one of them while another one is being cleared
        return commands

    def _keep_minimum(self, now: float, times: list[float]) -> list[Command]:
        commands: list[Command] = []
        for replicas in () if self.closing else self.kept_sets():
            while (slot := self.start_kept(replicas, now, times)) is not None:
                commands += self._advance_drains(slot, now)
        self.is_below_minimum = any(replicas.spare() < 0 for replicas in self.kept_sets())
        return commands

    def _move_kept(self, state: ServeState, now: float, fit: Victims) -> list[Command] | None:
        """Move replicas that are kept loaded out of the way of a start. None: it need not wait for that.

        It waits at most until it has waited `max_wait`, and an operator's switch does not wait.
        """
        if not fit.stops_kept:
            return None
        is_switch = any(waiter.want is Want.SWITCH for waiter in state.queue.values())
        if is_switch or not state.queue or _is_overdue(state, now) or state.is_clearing():
            return None
        slots = self.move_kept(state, fit.serves, now)
        if slots is None:
            return None
        state.slot_state.group.times.append(_overdue_at(state))
        return [command for slot_state in slots for command in self._advance_drains(slot_state, now)]

    def _start(self, state: ServeState, victims: tuple[ServeState, ...], now: float) -> float:
        """Decide the swap if it may happen now. Returns the time at which to ask again."""
        if victims:
            if state.is_clearing():
                return FOREVER
            eviction = may_evict(state, victims, now)
            if not eviction.now:
                return eviction.at
        state.loaded_for = state.load_reason()
        is_switch = any(w.want is Want.SWITCH for w in state.queue.values())
        slot = state.slot_state.slot
        for slot_state in state.slot_states:
            slot_state.has_left_idle_serve = slot_state.slot.idle_serve not in (None, state.name) and not is_switch
        own = (w.drain_timeout for w in state.queue.values() if w.drain_timeout is not None)
        drain = min(own, default=slot.swap.drain_timeout)
        self.open_swap(SwapKind.DEMAND, state, victims, now, drain, key=_first_key(state))
        return FOREVER

    def _stop_idle(self, slot_state: SlotState, now: float) -> None:
        for state in slot_state.live:
            idle = state.serve.idle_unload
            if (
                idle is None
                or state.phase is not ServePhase.READY
                or state.is_used()
                or state.wanted
                or state.is_kept()
            ):
                continue
            due = state.unused_since + idle
            if now >= due:
                self.open_swap(SwapKind.UNLOAD, None, (state,), now, 0.0)
            else:
                slot_state.group.times.append(due)

    def _return_to_idle_serve(self, slot_state: SlotState, now: float) -> None:
        """1 nothing to return to  2 it may not start  3 something is in use, or under way  4 not yet, or it failed to
        start a short time ago  5 it cannot fit  6 a preloaded serve would have to stop that nobody has used yet,
        or a replica that is kept loaded  7 load it
        """
        target = next((s for s in slot_state.serves if s.name == slot_state.slot.idle_serve), None)
        if target is None or target.phase is ServePhase.READY or target.removed or self.closing:
            slot_state.has_left_idle_serve = False  # 1
            return
        if target.is_left_alone() or target.is_held or target.serve.needs_force:
            return  # 2
        if slot_state.swaps or any(state.is_used() for state in slot_state.live):
            return  # 3
        last = max(state.unused_since for state in slot_state.serves)
        due = max(last + slot_state.slot.idle_serve_after, target.backoff_until, idle_serve_retry(target))
        if now < due:
            slot_state.group.times.append(due)  # 4
            return
        fit = victims_for(target)
        if isinstance(fit, Never):
            slot_state.has_left_idle_serve = False  # 5
        elif isinstance(fit, Later) or fit.stops_kept or any(v.is_unused(LoadReason.PRELOAD) for v in fit.serves):
            return  # 6
        else:
            target.loaded_for = LoadReason.IDLE
            self.open_swap(SwapKind.DEMAND, target, fit.serves, now, 0.0)  # 7

    def _advance_drains(self, slot_state: SlotState, now: float) -> list[Command]:
        commands: list[Command] = []
        for swap in slot_state.swaps.values():
            if swap.run_at is not None:
                continue
            for victim in swap.victims:
                commands += self.cut_preemptible(victim)
            busy = [v for v in swap.victims if v.leases]
            if busy and now < swap.drain_deadline:
                slot_state.group.times.append(swap.drain_deadline)
                if swap.target is not None and not swap.check_started:
                    swap.check_started = True
                    commands.append(CheckStart(swap.swap_id, swap.target.name))
                continue
            commands += [self.cut_leases(v, refusals.swap_reason(swap)) for v in busy]
            commands.append(self.run_swap(swap, now))
        return commands


def _first_key(state: ServeState) -> str:
    """The key whose request causes a swap: the first that waits, of the highest priority."""
    return min(state.queue.values(), key=lambda waiter: waiter.share.priority).share.key if state.queue else ""


def _is_stale_preload(state: ServeState, now: float) -> bool:
    """Whether only a preload wants it, and another serve of its slot was used since that was asked for."""
    asked_at = state.preload_asked_at
    if asked_at is None or asked_at >= now or state.queue:
        return False
    return any(other is not state and other.was_used_since(asked_at) for other in state.slot_state.serves)


def _is_overdue(state: ServeState, now: float) -> bool:
    """Whether a request has waited `max_wait` for it."""
    return _overdue_at(state) <= now


def _overdue_at(state: ServeState) -> float:
    """When a request will have waited `max_wait` for it; infinity: none waits."""
    return min((waiter.since for waiter in state.foreground()), default=FOREVER) + max_wait(state)


def _start_order(now: float) -> Callable[[ServeState], tuple[bool, bool, float, float, str]]:
    """Switches, then models past `max_wait`, oldest first; then by oldest waiter; background, then preloads last."""

    def key(state: ServeState) -> tuple[bool, bool, float, float, str]:
        is_switch = any(w.want is Want.SWITCH for w in state.queue.values())
        oldest = min((waiter.since for waiter in state.foreground()), default=FOREVER)
        return (not is_switch, not _is_overdue(state, now), oldest, state.oldest, state.name)

    return key
