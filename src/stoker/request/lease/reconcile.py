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

from collections.abc import Callable, Collection, Iterable

from stoker.domain.errors import StokerError
from stoker.domain.serve_phase import ServePhase
from stoker.request.lease import refusals
from stoker.request.lease.commands import CancelSwap, CheckStart, Command, Grant, Reassign, Reject, WakeAt
from stoker.request.lease.eviction import DoesNotFit, FitsAfter, Victims, victims_for
from stoker.request.lease.places import (
    ROUNDING,
    ExtraReplica,
    better_replica,
    extra_replica,
    free_place,
    kept_replica,
    left_short,
    may_join,
    sibling_for_waiting,
    to_take_over,
)
from stoker.request.lease.scheduler_state import SchedulerState
from stoker.request.lease.state import LoadReason, ReplicaSet, ServeState, SlotGroup, SlotState, SwapKind
from stoker.request.lease.timing import idle_serve_retry, may_evict, overdue_at
from stoker.request.lease.waiter import Waiter, Want


class ReplicaSteps:
    """What the scheduler does for serves with several places. A serve with one place comes through none of this."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state

    def move_waiting(self, replicas: ReplicaSet, now: float) -> list[Command]:
        """Requests that wait for a replica which cannot serve them join another one. One that is ready and has a free
        place takes over those that wait for its siblings: see `places.to_take_over`.
        """
        commands: list[Command] = []
        for state in replicas.replicas:
            if state.queue and (other := better_replica(state, now)) is not None:
                commands += self._move(state, other, _requests(state, other), now)
        for state in replicas.replicas if replicas.ready else ():
            if state.phase is not ServePhase.READY:
                continue
            for waiter, sibling in to_take_over(state, replicas):
                sibling.charge(waiter)
                commands += self._move(sibling, state, [waiter], now)
        return commands

    def hand_over_waiting(self, state: ServeState, error: StokerError, now: float) -> list[Command]:
        """A serve cannot serve those that wait for it: requests join another replica, if one serves them or may start;
        all others are refused with `error`.
        """
        other = sibling_for_waiting(state, now)
        moved = [] if other is None else self._move(state, other, _requests(state, other), now)
        return [*moved, *self._state.refuse_all(state, error)]

    def is_surplus(self, state: ServeState, replicas: ReplicaSet) -> bool:
        """Whether a stopped replica is not started, because as many as allowed are loaded without it. An operator's
        switch starts it nevertheless.
        """
        if state.is_elsewhere or not replicas.is_complete():
            return False
        if any(waiter.want is Want.SWITCH for waiter in state.queue.values()):
            return False
        if state.wanted is not state.serve.keep_loaded:
            state.wanted = state.serve.keep_loaded
            state.touch()
        return True

    def start_extra(self, replicas: ReplicaSet, now: float, times: list[float]) -> SlotState | None:
        """Start one more replica, if that disturbs nobody or is paid for: see `places.extra_replica`.

        Returns the slot in which a swap was decided.
        """
        version, (seen, until, at) = replicas.decided_version(), replicas.no_extra
        if version == seen and now < until:
            if at < float("inf"):
                times.append(at)
            return None
        more = extra_replica(replicas, now)
        until = now if more.depends_on_time or self._state.kept_sets() else more.at - ROUNDING
        replicas.no_extra = version, until, more.at
        return self._start_more(more, SwapKind.DEMAND, now, times)

    def start_kept(self, replicas: ReplicaSet, now: float, times: list[float]) -> SlotState | None:
        """As `start_extra`, if fewer are loaded than are kept: see `places.kept_replica`."""
        return self._start_more(kept_replica(replicas, now), SwapKind.KEEP, now, times)

    def move_kept(self, target: ServeState, victims: Collection[ServeState], now: float) -> list[SlotState] | None:
        """Start one more replica elsewhere of each serve that victims leave with fewer than are kept loaded. Until they
        are ready, `target` waits.

        Returns the slots in which they start; None: there is no free place for them, and none starts already.
        """
        slots: list[SlotState] = []
        is_under_way = False
        for replicas in left_short(victims):
            if replicas.spare(victims) + replicas.starting() >= 0:
                is_under_way = True
            elif (free := free_place(replicas, now, target)) is not None:
                self._start_more(ExtraReplica(free, (), now), SwapKind.KEEP, now, [])
                slots.append(free.slot_state)
        return slots if slots or is_under_way else None

    def _start_more(self, more: ExtraReplica, kind: SwapKind, now: float, times: list[float]) -> SlotState | None:
        if more.state is None:
            if more.at < float("inf"):
                times.append(more.at)
            return None
        more.state.loaded_for = LoadReason.IDLE if kind is SwapKind.KEEP else LoadReason.REQUEST
        self._state.open_swap(kind, more.state, more.victims, now, 0.0)
        return more.state.slot_state

    def _move(self, state: ServeState, other: ServeState, waiters: Iterable[Waiter], now: float) -> list[Command]:
        commands: list[Command] = []
        self._state.join_waiting(other)
        state.slot_state.group.touch()
        for waiter in waiters:
            del state.queue[waiter.id]
            other.queue[waiter.id] = waiter
            if waiter.share.session is not None:
                other.join_session(waiter.share.session)
            self._state.update_wait(other, waiter, now)
            commands.append(Reassign(waiter.id, other.name))
        in_order = sorted(other.queue.values(), key=lambda waiter: (waiter.since, waiter.id))
        other.queue.clear()
        other.queue.update((waiter.id, waiter) for waiter in in_order)
        return commands


def _requests(state: ServeState, other: ServeState) -> list[Waiter]:
    """Those that may join the other one. An operator's switch waits for the replica that it named."""
    return [waiter for waiter in state.queue.values() if may_join(waiter, other)]


FOREVER = float("inf")
_NOT_LOADED = (ServePhase.STOPPED, ServePhase.STOPPING)


class Reconciler:
    """The decision function, over everything that the scheduler remembers."""

    def __init__(self, state: SchedulerState, replicas: ReplicaSteps) -> None:
        self._state = state
        self._replicas = replicas
        self._decided: dict[SlotGroup, None] = {}
        """In the decision that is under way."""
        self._first_wake = FOREVER
        """Of all groups."""

    def reconcile(self, now: float) -> list[Command]:
        """The decision function. The module's docstring has its numbered steps."""
        commands: list[Command] = []
        groups = self._state.slot_groups()
        due = groups[0].due if groups else {}
        if now >= self._first_wake:
            due.update((group, None) for group in groups if group.wake <= now)
        for group in due:
            for slot_state in group.slots:
                if slot_state.has_stale_live:
                    slot_state.clean_live()
        now_due = list(due)
        for state in self._state.waited_for():
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
        for replicas in () if self._state.closing else self._state.replicas_waited_for():
            if replicas.is_short() and (slot := self._replicas.start_extra(replicas, now, times)) is not None:  # 5
                commands += self._advance_drains(slot, now)  # 7
        if self._state.kept_sets():
            commands += self._keep_minimum(now, times)  # 5, 7
        return [*commands, *self._wake_up_at(now, times)]

    def _move_waiting(self, now: float) -> list[Command]:
        """Step 2. Where replicas are kept loaded, more than what has changed in a serve's own slots counts."""
        commands: list[Command] = []
        for replicas in self._state.replicas_waited_for():
            if replicas.has_changed(now) or self._state.kept_sets():
                commands += self._replicas.move_waiting(replicas, now)
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
            commands += self._grant_waiters(slot_state, now)  # 4
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
        groups = self._state.slot_groups()
        if groups:
            self._decided.update(groups[0].due)
        for group in self._decided:
            group.wake = min(group.times, default=FOREVER)
        for state in self._state.waiting:
            group = state.slot_state.group
            if group in self._decided:
                for waiter in state.queue.values():
                    self._state.update_wait(state, waiter, now)
                    group.wake = min(group.wake, waiter.deadline)
        self._first_wake = min([group.wake for group in groups], default=FOREVER)
        self._decided.clear()
        at = min([self._first_wake, *times])
        wake = None if at == FOREVER else at
        if wake == self._state.wake:
            return []
        self._state.wake = wake
        return [WakeAt(wake)]

    def _expire(self, state: ServeState, now: float) -> list[Command]:
        commands: list[Command] = []
        for waiter in list(state.queue.values()):
            self._state.update_wait(state, waiter, now)
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
                self._state.call_off(swap, now)
            elif any(s.queue and s.phase in _NOT_LOADED for s in slot_state.live):
                swap.cancelled = True
                slot_state.group.touch()
                commands.append(CancelSwap(swap.swap_id))
        return commands

    def _grant_waiters(self, slot_state: SlotState, now: float) -> list[Command]:
        commands: list[Command] = []
        for state in slot_state.live:
            if state.phase is not ServePhase.READY or not state.queue:
                continue
            gives_way = state.gives_way()
            for waiter in state.waiting_order():
                if gives_way and waiter.is_background:
                    continue
                if waiter.want is Want.REQUEST and waiter.takes_place and state.preemptible and not state.has_place():
                    commands += self._state.cut_preemptible(state, waiter.share.priority)
                if waiter.want is Want.SWITCH:
                    commands.append(Grant(waiter.id))
                elif not waiter.takes_place or state.has_place():
                    self._state.add_lease(state, waiter.id, waiter.takes_place, waiter.share, waiter.body_bytes)
                    if waiter.share.session is not None:
                        waiter.share.session.root.waited += now - waiter.since
                    commands.append(Grant(waiter.id))
                else:
                    continue
                del state.queue[waiter.id]
                state.touch()
        return commands

    def _start_needed(self, group: SlotGroup, now: float) -> list[Command]:
        commands: list[Command] = []
        if self._state.closing:
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
            if state.replica_set is not None and self._replicas.is_surplus(state, state.replica_set):
                continue
            fit = victims_for(state)
            if isinstance(fit, DoesNotFit):
                commands += self._state.refuse_all(state, refusals.no_fit(fit))
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
        for replicas in () if self._state.closing else self._state.kept_sets():
            while (slot := self._replicas.start_kept(replicas, now, times)) is not None:
                commands += self._advance_drains(slot, now)
        self._state.is_below_minimum = any(replicas.spare() < 0 for replicas in self._state.kept_sets())
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
        slots = self._replicas.move_kept(state, fit.serves, now)
        if slots is None:
            return None
        state.slot_state.group.times.append(_overdue_at(state))
        return [command for slot_state in slots for command in self._advance_drains(slot_state, now)]

    def _start(self, state: ServeState, victims: tuple[ServeState, ...], now: float) -> float:
        """Decide the swap if it may happen now. Returns the time at which to ask again."""
        if victims:
            if state.is_clearing():
                return FOREVER
            eviction = may_evict(state, victims, now, self._state.gaps)
            if not eviction.now:
                return eviction.at
        state.loaded_for = state.load_reason()
        is_switch = any(w.want is Want.SWITCH for w in state.queue.values())
        slot = state.slot_state.slot
        for slot_state in state.slot_states:
            slot_state.has_left_idle_serve = slot_state.slot.idle_serve not in (None, state.name) and not is_switch
        own = (w.drain_timeout for w in state.queue.values() if w.drain_timeout is not None)
        drain = min(own, default=slot.swap.drain_timeout)
        self._state.open_swap(SwapKind.DEMAND, state, victims, now, drain, key=_first_key(state))
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
                self._state.open_swap(SwapKind.UNLOAD, None, (state,), now, 0.0)
            else:
                slot_state.group.times.append(due)

    def _return_to_idle_serve(self, slot_state: SlotState, now: float) -> None:
        """1 nothing to return to  2 it may not start  3 something is in use, or under way  4 not yet, or it failed to
        start a short time ago  5 it cannot fit  6 a preloaded serve would have to stop that nobody has used yet,
        or a replica that is kept loaded  7 load it
        """
        target = next((s for s in slot_state.serves if s.name == slot_state.slot.idle_serve), None)
        if target is None or target.phase is ServePhase.READY or target.removed or self._state.closing:
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
        if isinstance(fit, DoesNotFit):
            slot_state.has_left_idle_serve = False  # 5
        elif isinstance(fit, FitsAfter) or fit.stops_kept or any(v.is_unused(LoadReason.PRELOAD) for v in fit.serves):
            return  # 6
        else:
            target.loaded_for = LoadReason.IDLE
            self._state.open_swap(SwapKind.DEMAND, target, fit.serves, now, 0.0)  # 7

    def _advance_drains(self, slot_state: SlotState, now: float) -> list[Command]:
        commands: list[Command] = []
        for swap in slot_state.swaps.values():
            if swap.run_at is not None:
                continue
            for victim in swap.victims:
                commands += self._state.cut_preemptible(victim)
            busy = [v for v in swap.victims if v.leases]
            if busy and now < swap.drain_deadline:
                slot_state.group.times.append(swap.drain_deadline)
                if swap.target is not None and not swap.check_started:
                    swap.check_started = True
                    commands.append(CheckStart(swap.swap_id, swap.target.name))
                continue
            commands += [self._state.cut_leases(v, refusals.swap_reason(swap)) for v in busy]
            commands.append(self._state.run_swap(swap, now))
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
    return overdue_at(state, state.foreground())


def _start_order(now: float) -> Callable[[ServeState], tuple[bool, bool, float, float, str]]:
    """Switches, then models past `max_wait`, oldest first; then by oldest waiter; background, then preloads last."""

    def key(state: ServeState) -> tuple[bool, bool, float, float, str]:
        is_switch = any(w.want is Want.SWITCH for w in state.queue.values())
        oldest = min((waiter.since for waiter in state.foreground()), default=FOREVER)
        return (not is_switch, not _is_overdue(state, now), oldest, state.oldest, state.name)

    return key
