"""Every serve and slot at run time, and the elementary steps by which they change. No step decides anything."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import inf
from operator import attrgetter

from stoker.domain.errors import StokerError
from stoker.domain.key import Priority
from stoker.domain.lease import NOBODY, FairShare
from stoker.domain.serve import Serve, Slot, slots_of
from stoker.domain.serve_phase import ServeEvent, ServePhase
from stoker.domain.session import Session
from stoker.request.lease import refusals
from stoker.request.lease.commands import CancelSwap, Command, Cut, Grant, Reject, StartSwap
from stoker.request.lease.eviction import Victims, victims_for
from stoker.request.lease.sessions import GapMemory, is_forgotten
from stoker.request.lease.state import (
    MOST_OF_SERVE,
    PauseCause,
    ReplicaSet,
    ServeState,
    SlotGroup,
    SlotState,
    Swap,
    SwapKind,
)
from stoker.request.lease.timing import swap_timeout
from stoker.request.lease.waiter import Waiter, Want


class SchedulerState:
    """Every serve and slot at run time, by name."""

    def __init__(self, slots: Iterable[Slot], serves: Iterable[Serve]) -> None:
        self.slots: dict[str, SlotState] = {slot.name: SlotState(slot) for slot in slots}
        self.serves: dict[str, ServeState] = {}
        self.replica_sets: dict[str, ReplicaSet] = {}
        """The serves with several places, by the name that clients use; each replica is in `serves`, too."""
        self.waiting: list[ServeState] = []
        """At least all serves that requests wait for, in the order of the configuration; `waited_for` removes the
        others.
        """
        self.last_swap_id = 0
        self.wake: float | None = None
        """When `on_tick` is to be called; None: at no time."""
        self.closing = False
        self.paused_everywhere = ""
        """Why an operator paused all slots of this machine, also those that a reload adds; empty: they are not."""
        self.is_below_minimum = False
        """Whether fewer replicas of a serve are loaded than are kept."""
        self._groups: list[SlotGroup] | None = None
        self._kept_sets: list[ReplicaSet] | None = None
        self._next_number = 0
        self.gaps = GapMemory()
        for serve in serves:
            self.add_serve(serve)

    def add_serve(self, serve: Serve) -> None:
        first, *more = [self._slot_state(name) for name in _slots(serve)]
        state = ServeState(serve, first, wanted=serve.keep_loaded, more_slots=tuple(more), number=self._next_number)
        self._next_number += 1
        state.join_live()
        for slot_state in state.slot_states:
            slot_state.serves.append(state)
        state.is_paused = is_paused(state)
        self.serves[serve.name] = state
        self.forget_order()
        if serve.replica_of:
            state.replica_set = self.replica_sets.setdefault(serve.replica_of, ReplicaSet(serve.replica_of))
            state.replica_set.replicas.append(state)

    def remove_serve(self, state: ServeState) -> None:
        for slot_state in state.slot_states:
            slot_state.serves.remove(state)
            slot_state.live.pop(state, None)
        for session in list(state.sessions):
            session.leave()
        self.waiting = [other for other in self.waiting if other is not state]
        self.serves.pop(state.name, None)
        self.forget_order()
        if state.replica_set is not None:
            state.replica_set.replicas.remove(state)
            if not state.replica_set.replicas:
                del self.replica_sets[state.replica_set.name]

    def apply_configuration(self, state: ServeState, serve: Serve) -> list[Command]:
        """Give a stopped serve its new configuration. Its queue stays, unless its new slot is paused."""
        state.pending = None
        if _slots(serve) == tuple(slot_state.slot.name for slot_state in state.slot_states):
            state.serve = serve
            state.is_paused = is_paused(state)
            self.forget_order()
            return []
        self.remove_serve(state)
        self.add_serve(serve)
        moved = self.serves[serve.name]
        moved.queue, moved.wanted, moved.is_held = state.queue, state.wanted or serve.keep_loaded, state.is_held
        moved.preload_asked_at, moved.costs = state.preload_asked_at, state.costs
        self.join_waiting(moved)
        return self.refuse_all(moved, refusals.slot_paused(moved)) if moved.is_paused else []

    def forget_order(self) -> None:
        """The configuration has changed."""
        self._groups = self._kept_sets = None
        for slot_state in self.slots.values():
            slot_state.has_evict_costs = slot_state.has_kept_serves = slot_state.longest_swaps = None

    def kept_sets(self) -> list[ReplicaSet]:
        """The serves of which replicas are kept loaded."""
        if self._kept_sets is None:
            sets = self.replica_sets.values()
            self._kept_sets = [
                replicas for replicas in sets if any(state.serve.min_replicas for state in replicas.replicas)
            ]
        return self._kept_sets

    def slot_groups(self) -> list[SlotGroup]:
        """The slots in which there are serves, in the order of the configuration."""
        if self._groups is None:
            self._groups = _grouped([slot_state for slot_state in self.slots.values() if slot_state.serves])
            for replicas in self.replica_sets.values():
                replicas.seen, replicas.no_extra = -1, (-1, 0.0, 0.0)  # versions begin anew
                replicas.groups = tuple(state.slot_state.group for state in replicas.replicas)
        return self._groups

    def join_waiting(self, state: ServeState) -> None:
        """A request waits for it."""
        position = bisect_left(self.waiting, state.number, key=_number)
        if self.waiting[position : position + 1] != [state]:
            self.waiting.insert(position, state)
        state.join_live()
        if state.phase is ServePhase.STOPPED:
            state.slot_state.group.note_arrival()
        else:
            state.slot_state.group.touch()
        if state.replica_set is not None:
            state.replica_set.seen = -1

    def waited_for(self) -> list[ServeState]:
        """The serves that requests wait for, in the order of the configuration."""
        self.waiting = [state for state in self.waiting if state.queue]
        return self.waiting

    def has_replica_waited_for(self, state: ServeState) -> bool:
        """Whether requests wait for a serve that has one of its places in a slot of this one."""
        group, slots = state.slot_state.group, state.slot_states
        for other in self.waiting:
            replicas = other.replica_set
            if (
                other.queue
                and replicas is not None
                and group in replicas.groups
                and any(slot in slots for replica in replicas.replicas for slot in replica.slot_states)
            ):
                return True
        return False

    def replicas_waited_for(self) -> Iterable[ReplicaSet]:
        """The serves with several places that requests wait for."""
        return dict.fromkeys([state.replica_set for state in self.waited_for() if state.replica_set is not None])

    def find_swap(self, swap_id: int) -> Swap | None:
        for slot_state in self.slots.values():
            if swap_id in slot_state.swaps:
                return slot_state.swaps[swap_id]
        return None

    def close_swap(self, swap: Swap) -> None:
        """It is over, or called off."""
        swap.slots[0].group.touch()
        for slot_state in swap.slots:
            del slot_state.swaps[swap.swap_id]

    def _slot_state(self, name: str) -> SlotState:
        """A slot that is not configured belongs to one serve alone."""
        if name not in self.slots:
            self.add_slot(Slot(name))
        return self.slots[name]

    def add_slot(self, slot: Slot) -> None:
        self.slots[slot.name] = slot_state = SlotState(slot)
        if self.paused_everywhere and slot.is_here:
            slot_state.pauses[PauseCause.OPERATOR] = self.paused_everywhere

    def add_lease(
        self, state: ServeState, id: int, takes_place: bool, share: FairShare = NOBODY, body_bytes: int = 0
    ) -> None:
        state.slot_state.group.touch()
        if not takes_place:
            state.leases[id] = ()
            return
        state.leases[id] = share, body_bytes
        state.active += 1
        if state.fair_queue is not None:
            if state.queue:
                state.fair_queue.charge(share, body_bytes)
            else:
                state.fair_queue = None

    def note_turn(self, state: ServeState, session: Session, now: float) -> None:
        """A request of a session is granted, or waits."""
        if session.ended_at is not None and session.loaded is not None:
            self.gaps.add(session, now - session.ended_at)
        for one in (session, session.root):
            if one.began_at is None:
                one.began_at = now
        session.ended_at = None
        state.join_session(session)
        self._forget_sessions(state, now)

    def _forget_sessions(self, state: ServeState, now: float) -> None:
        """Those that have not been here for long, and if there are too many single requests, then the oldest one. Of
        these is learned that they did not return.
        """
        while is_forgotten(oldest := next(iter(state.sessions)), now):
            if oldest.ended_at is None:  # its request is under way, or was cut
                state.join_session(oldest)
                break
            self.gaps.add(oldest, inf)
            oldest.leave()
        if len(state.sessions) > MOST_OF_SERVE:
            ended = [one for one in state.sessions if one.ended_at is not None]
            least = next((one for one in ended if one.is_single), ended[0] if ended else next(iter(state.sessions)))
            if least.ended_at is not None:
                self.gaps.add(least, inf)
            least.leave()

    def cut_leases(self, state: ServeState, reason: str) -> Command:
        return Cut(state.name, state.end_leases(state.leases), reason)

    def cut_preemptible(self, state: ServeState, priority: Priority | None = None) -> list[Command]:
        """Cut its preemptible leases: all, or those that a request of this priority goes before."""
        ids = [id for id, own in state.preemptible.items() if priority is None or own is None or priority < own]
        return [Cut(state.name, state.end_leases(ids), "another request needs its place")] if ids else []

    def refuse_all(self, state: ServeState, error: StokerError) -> list[Command]:
        commands: list[Command] = [Reject(id, error) for id in state.queue]
        state.queue.clear()
        state.slot_state.group.touch()
        return commands

    def update_wait(self, state: ServeState, waiter: Waiter, now: float) -> None:
        """While the serve is ready, a request waits for a place, otherwise for a load. Where that has changed:

        - It was loaded: `queue_timeout` from now on, or the rest of `swap_timeout` if that is longer.
        - It is stopped or was lost: `swap_timeout` from now on.
        """
        is_ready = state.phase is ServePhase.READY
        if waiter.want is not Want.REQUEST or waiter.waits_for_place is is_ready:
            return
        waiter.waits_for_place = is_ready
        if is_ready:
            waiter.deadline = max(waiter.deadline, now + state.serve.queue_timeout)
        else:
            waiter.deadline = now + swap_timeout(state)

    def open_swap(
        self,
        kind: SwapKind,
        target: ServeState | None,
        victims: tuple[ServeState, ...],
        now: float,
        drain: float,
        reason: str = "",
        key: str = "",
    ) -> None:
        """Record a decided swap. It runs in step 7 of `reconcile`: at once if its victims hold no lease."""
        slots = (victims[0] if target is None else target).slot_states
        self.last_swap_id += 1
        swap = Swap(self.last_swap_id, kind, target, victims, slots, now, now + drain, reason=reason, key=key)
        for slot_state in slots:
            slot_state.swaps[swap.swap_id] = swap
            slot_state.swaps_made += target is not None
        if target is not None:
            target.apply(ServeEvent.STARTED)
        for victim in victims:
            victim.apply(ServeEvent.STOP_DECIDED)

    def run_swap(self, swap: Swap, now: float) -> Command:
        swap.run_at = now
        swap.slots[0].group.touch()
        for victim in swap.victims:
            victim.apply(ServeEvent.STOP_BEGUN)
        name = swap.target.name if swap.target is not None else None
        return StartSwap(swap.swap_id, name, tuple(v.name for v in swap.victims))

    def call_off(self, swap: Swap, now: float) -> None:
        """Undo a swap whose victims still drain, because no request waits for its target: the victims go on serving."""
        target = swap.target
        if target is None:
            raise ValueError("an unload cannot be called off")
        self.close_swap(swap)
        for slot_state in swap.slots:
            slot_state.swaps_made -= 1
        target.apply(ServeEvent.CALLED_OFF)
        for victim in swap.victims:
            victim.apply(ServeEvent.CALLED_OFF)
            if victim.exited or victim.must_stop():
                self.open_swap(SwapKind.UNLOAD, None, (victim,), now, max(0.0, swap.drain_deadline - now))

    def spare_victims(self, swap: Swap, now: float) -> list[Command]:
        """The swap failed, or was cancelled, before a victim was stopped: the victims go on serving."""
        commands: list[Command] = []
        for victim in swap.victims:
            if victim.exited:
                commands += self.mark_stopped(victim)
                continue
            victim.apply(ServeEvent.CALLED_OFF)
            if victim.must_stop():
                self.open_swap(SwapKind.UNLOAD, None, (victim,), now, 0.0)
        return commands

    def give_up_start(self, state: ServeState, now: float) -> list[Command]:
        """Give up a start: call the swap off while its victims drain, cancel it later."""
        for swap in list(state.slot_state.swaps.values()):
            if swap.target is state:
                if swap.run_at is None:
                    self.call_off(swap, now)
                    return self.mark_stopped(state)
                swap.cancelled = True
                return [CancelSwap(swap.swap_id)]
        return []

    def mark_ready(self, state: ServeState, swap: Swap, now: float) -> None:
        state.apply(ServeEvent.PROVED)
        state.ready_since = now
        state.failures = 0
        state.backoff_until = 0.0
        state.last_error = None
        state.wanted = state.serve.keep_loaded or state.is_paused
        state.preload_asked_at = None
        state.exited = False
        if swap.kind is SwapKind.DEMAND:
            self.keep_again(state)
        if swap.run_at is not None:
            state.note_swap_time(now - swap.run_at)

    def keep_again(self, state: ServeState) -> None:
        """Its serve is asked for: what an operator unloaded of it may be kept loaded again."""
        for replica in () if state.replica_set is None else state.replica_set.replicas:
            replica.is_unloaded = False
        state.touch()

    def mark_stopped(self, state: ServeState) -> list[Command]:
        if state.phase is not ServePhase.STOPPED:  # its start was called off before
            state.apply(ServeEvent.GONE)
        state.exited = False
        state.measured = None  # the declared size counts until it is measured again
        state.end_leases(state.leases)
        commands: list[Command] = [Grant(id) for id in state.unloads]
        state.unloads.clear()
        if state.pending is not None:
            commands += self.apply_configuration(state, state.pending)
        if state.removed:
            self.remove_serve(state)
        return commands

    def restore(self, state: ServeState, kind: SwapKind, now: float) -> None:
        """Start it again if it is stopped, may run, and fits without another stop; else do nothing."""
        if (
            (state.replica_set is not None and not state.is_elsewhere and state.replica_set.is_complete())
            or self.serves.get(state.name) is not state
            or state.phase is not ServePhase.STOPPED
            or state.is_held
            or state.is_left_alone()
        ):
            return
        fit = victims_for(state)
        if isinstance(fit, Victims) and not fit.serves:
            state.loaded_for = state.load_reason()
            self.open_swap(kind, state, (), now, 0.0)


def is_paused(state: ServeState) -> bool:
    """Whether a slot of its is paused. What runs elsewhere takes no memory here: no pause ends it."""
    return not state.is_elsewhere and any(slot_state.pauses for slot_state in state.slot_states)


def _slots(serve: Serve) -> tuple[str, ...]:
    """The slots that it takes; a serve without one has a slot of its own."""
    return (f"~{serve.name}",) if serve.slot is None else slots_of(serve.slot)


def _grouped(slots: list[SlotState]) -> list[SlotGroup]:
    """New groups, all of which are to be decided."""
    group_of = {slot_state.slot.name: [slot_state] for slot_state in slots}
    for state in [state for slot_state in slots for state in slot_state.serves if state.more_slots]:
        group = group_of[state.slot_state.slot.name]
        for slot_state in state.more_slots:
            other = group_of[slot_state.slot.name]
            if other is not group:
                group += other
                group_of.update((joined.slot.name, group) for joined in other)
    groups = [SlotGroup(tuple(group)) for group in {id(group): group for group in group_of.values()}.values()]
    due = dict.fromkeys(groups)
    for number, made in enumerate(groups):
        made.number, made.due = number, due
        made.keeps_replicas = any(state.serve.min_replicas for slot in made.slots for state in slot.serves)
        for slot_state in made.slots:
            slot_state.group = made
    return groups


_number = attrgetter("number")
