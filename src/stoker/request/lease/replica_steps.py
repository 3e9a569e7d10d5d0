"""What the scheduler does for serves with several places. A serve with one place comes through none of this."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stoker.domain.errors import StokerError
from stoker.request.lease.commands import Command, Reassign
from stoker.request.lease.phases import ServePhase
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
from stoker.request.lease.state import LoadReason, ReplicaSet, ServeState, SlotState, SwapKind
from stoker.request.lease.transitions import Transitions
from stoker.request.lease.waiter import Waiter, Want


class ReplicaSteps(Transitions):
    """Adds the steps of the decision function that concern replicas to the serves and slots of Transitions."""

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
        return [*moved, *self.refuse_all(state, error)]

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
        until = now if more.depends_on_time or self.kept_sets() else more.at - ROUNDING
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
        self.open_swap(kind, more.state, more.victims, now, 0.0)
        return more.state.slot_state

    def _move(self, state: ServeState, other: ServeState, waiters: Iterable[Waiter], now: float) -> list[Command]:
        commands: list[Command] = []
        self.join_waiting(other)
        state.slot_state.group.touch()
        for waiter in waiters:
            del state.queue[waiter.id]
            other.queue[waiter.id] = waiter
            self.update_wait(other, waiter, now)
            commands.append(Reassign(waiter.id, other.name))
        in_order = sorted(other.queue.values(), key=lambda waiter: (waiter.since, waiter.id))
        other.queue.clear()
        other.queue.update((waiter.id, waiter) for waiter in in_order)
        return commands


def _requests(state: ServeState, other: ServeState) -> list[Waiter]:
    """Those that may join the other one. An operator's switch waits for the replica that it named."""
    return [waiter for waiter in state.queue.values() if may_join(waiter, other)]
