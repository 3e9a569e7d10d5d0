"""The lease scheduler: which request may run now, which must wait, which serve must stop.

Every input takes `now` (monotonic seconds) and returns commands, to be carried out in order. Each input
changes one thing and then calls `reconcile`, the only place where anything is decided. Only the exits marked *hot*
return without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Final

from stoker.domain.errors import BEYOND_THE_DEVICE, LASTING_HERE, StartFailed, StokerError
from stoker.domain.key import Priority
from stoker.domain.lease import NOBODY, FairShare
from stoker.domain.protocols import FileMarks
from stoker.domain.serve import Driver, Serve, Slot
from stoker.domain.serve_phase import ServeEvent, ServePhase
from stoker.request.lease import refusals
from stoker.request.lease.commands import Command, Grant, Reassign, Reject
from stoker.request.lease.eviction import DoesNotFit, Victims, victims_for
from stoker.request.lease.reconcile import FOREVER, Reconciler, ReplicaSteps
from stoker.request.lease.scheduler_state import SchedulerState, is_paused
from stoker.request.lease.state import CannotLoad, PauseCause, ServeState, Swap, SwapKind, from_failure, is_lasting
from stoker.request.lease.timing import BACKOFF_CAP, BACKOFF_WAIT, STEADY_AFTER, backoff, swap_timeout
from stoker.request.lease.waiter import Waiter, Want

_READY: Final = ServePhase.READY
_BACKGROUND: Final = Priority.BACKGROUND
"""Looking up the member of an enum takes longer than the rest of a condition; these are looked up for each request."""


class Scheduler:
    """See the module's docstring. Not thread-safe; never blocks; raises only on misuse (an unknown serve)."""

    def __init__(self, slots: Iterable[Slot], serves: Iterable[Serve]) -> None:
        self.state = SchedulerState(slots, serves)
        # The same mappings, for the hot path and for those who ask.
        self.serves, self.slots, self.replica_sets = self.state.serves, self.state.slots, self.state.replica_sets
        self._replicas = ReplicaSteps(self.state)
        self._reconciler = Reconciler(self.state, self._replicas)

    # -- requests ------------------------------------------------------------------------------------------------

    def on_request(
        self,
        id: int,
        name: str,
        now: float,
        takes_place: bool = True,
        share: FairShare = NOBODY,
        body_bytes: int = 0,
        avoid: frozenset[str] = frozenset(),
    ) -> list[Command]:
        """A request for a serve that exists. It is granted, refused, or waits.

        0. a background request while another one waits for a load in the slot: not 1, it waits as in 4
        1. ready, nobody waits, a place is free (or none needed) -> Grant        (hot)
           no place free, but a lease that it may preempt         -> Cut, Grant
        2. shutting down, drained by the operator, its slot is paused, parked, or it cannot load -> Reject
        3. the queue is full (for a load: `max_active` more)      -> Reject; not this one, but the last one of the key
           that has the most waiting, if that is another key of the same or a lower priority
        4. ready, but no place free: waits at most `queue_timeout`; Reject if that is 0
        5. can never fit, or backs off for long                   -> Reject
        6. otherwise it waits for the load, at most `swap_timeout`; once loaded, for a place as in 4
        """
        state = self.serves[name]
        is_open = state.phase is _READY and not state.is_held and not self.state.closing
        state.note_arrival(now)
        if share.priority is _BACKGROUND and state.gives_way():
            is_open = False
        if is_open and (not takes_place or (not state.queue and state.active < state.serve.max_active)):
            self.state.add_lease(state, id, takes_place, share, body_bytes)
            if share.session is not None:
                self.state.note_turn(state, share.session, now)
            return [Grant(id)]  # 1
        cut = self.state.cut_preemptible(state, share.priority) if is_open and state.preemptible else []
        if cut and not state.queue and state.has_place():
            self.state.add_lease(state, id, takes_place, share, body_bytes)
            if share.session is not None:
                self.state.note_turn(state, share.session, now)
            cut.append(Grant(id))
            return cut if state.replica_set is None else [*cut, *self._reconciler.reconcile(now)]  # 1
        error, waits_for_place = self._refusal(state, now)
        if error is not None and error.code == refusals.QUEUE_FULL and (last := _displaced(state, share)) is not None:
            del state.queue[last.id]
            state.touch()
            cut = [*cut, Reject(last.id, error)]  # 3
            error, waits_for_place = self._refusal(state, now)
        if error is not None:
            return [*cut, Reject(id, error)]
        if share.session is not None:
            self.state.note_turn(state, share.session, now)
        self.state.join_waiting(state)
        patience = state.serve.queue_timeout if waits_for_place else swap_timeout(state)
        deadline = now + patience
        state.queue[id] = Waiter(
            id,
            Want.REQUEST,
            now,
            deadline,
            takes_place,
            waits_for_place,
            share=share,
            body_bytes=body_bytes,
            avoid=avoid,
        )
        return [*cut, *self._reconciler.reconcile(now)]

    def on_cancel(self, id: int, name: str, now: float) -> list[Command]:
        """A waiter leaves. One that was granted in the same moment gives its lease back."""
        state = self.serves.get(name)
        if state is None:
            return []
        if state.queue.pop(id, None) is None:
            return self.on_release(id, name, now)
        state.touch()
        return self._reconciler.reconcile(now)

    def on_release(self, id: int, name: str, now: float) -> list[Command]:
        """A lease ends. Unknown ones (cut, or their serve has exited) are ignored."""
        state = self.serves.get(name)
        held = state.leases.pop(id, None) if state is not None else None
        if state is None or held is None:
            return []
        state.slot_state.group.touch()
        if held:
            state.active -= 1
            session = held[0].session
            if session is not None:
                session.turns += 1
                session.ended_at = now
        if id in state.preemptible:
            del state.preemptible[id]
        else:
            state.last_used = now
        is_quiet = state.is_quiet() and not (self.state.waiting and self.state.has_replica_waited_for(state))
        if state.phase is _READY and is_quiet and not self.state.is_below_minimum:
            idle = state.serve.idle_unload
            if state.slot_state.has_left_idle_serve:
                after = state.slot_state.slot.idle_serve_after
                idle = after if idle is None else min(idle, after)
            if idle is None or (self.state.wake is not None and self.state.wake <= now + idle):
                return []  # hot
        return self._reconciler.reconcile(now)

    def on_preemption_allowed(self, id: int, name: str, now: float, priority: Priority | None = None) -> list[Command]:
        """Mark a lease as preemptible: it is cut when a request of a higher priority than this (None: any request)
        needs its place or its serve's memory, and it does not make the serve busy. Unknown leases, and those that take
        no place, are ignored.
        """
        state = self.serves.get(name)
        if state is None or not state.leases.get(id):
            return []
        state.preemptible[id] = priority
        state.touch()
        return self._reconciler.reconcile(now)

    # -- the fleet -----------------------------------------------------------------------------------------------

    def on_swap_done(
        self,
        swap_id: int,
        now: float,
        error: StokerError | None = None,
        cancelled: bool = False,
        victims_untouched: bool = False,
        files: FileMarks = (),
    ) -> list[Command]:
        """The result of a StartSwap. The result of a swap that is over already is ignored. `files`: those of the
        target, as they were before it was started.

        The victims are gone, unless `victims_untouched`: the swap failed, or was cancelled, before it stopped the
        first one.
        """
        swap = self.state.find_swap(swap_id)
        if swap is None:
            return []
        self.state.close_swap(swap)
        commands: list[Command] = []
        if victims_untouched:
            commands += self.state.spare_victims(swap, now)
        else:
            for victim in swap.victims:
                commands += self.state.mark_stopped(victim)
        target = swap.target
        if target is None:
            return commands + self._reconciler.reconcile(now)
        if error is None and not cancelled:
            self.state.mark_ready(target, swap, now)
            if target.must_stop():
                self.state.open_swap(SwapKind.UNLOAD, None, (target,), now, 0.0)
        elif cancelled or swap.cancelled or error is None:
            commands += self.state.mark_stopped(target)
        else:
            commands += self._failed(target, swap, now, error, files)
        return commands + self._reconciler.reconcile(now)

    def on_cannot_load(self, name: str, now: float, reason: str) -> list[Command]:
        """A check found that a stopped serve cannot load, and why. Nothing is stopped for it from now on."""
        state = self.serves.get(name)
        problem = CannotLoad(reason, reason)
        if state is None or state.phase is not ServePhase.STOPPED or state.cannot_load == problem:
            return []
        state.cannot_load = problem
        state.touch()
        return self._replicas.hand_over_waiting(
            state, refusals.cannot_load(state.serve, problem), now
        ) + self._reconciler.reconcile(now)

    def on_may_load(self, name: str, now: float) -> list[Command]:
        """What prevented a serve from loading is gone, or has changed."""
        state = self.serves.get(name)
        if state is None or state.cannot_load is None:
            return []
        self._forgive(state)
        return self._reconciler.reconcile(now)

    def on_exit(self, name: str, now: float, detail: str = "", code: str = "") -> list[Command]:
        """A serve that was ready has exited. `code` names the failure, if it is known.

        If the model does not fit on its device, waiting requests are refused, and its `fallback` is started.
        """
        state = self.serves.get(name)
        if state is None or state.phase not in (ServePhase.READY, ServePhase.DRAINING):
            if state is not None and state.phase is ServePhase.STOPPING:
                state.exited = True  # if its swap is called off, it counts as stopped nevertheless
            return []  # the result of a start or stop comes through on_swap_done
        cut: list[Command] = []
        if state.leases and state.serve.box_place is not None:  # nothing else ends them if its machine is gone
            cut.append(self.state.cut_leases(state, f"{state.serve.name} was lost"))
        state.end_leases(state.leases)
        state.last_error = error = refusals.exited(state.serve, detail, code)
        state.touch()
        if state.phase is ServePhase.DRAINING:
            state.exited = True
            return [*cut, *self._reconciler.reconcile(now)]
        if now - state.ready_since < STEADY_AFTER:
            state.crashes += 1
            state.backoff_until = now + backoff(state.crashes)
        else:
            state.crashes = 0
        commands = [*cut, *self.state.mark_stopped(state)]
        fallback = self.serves.get(state.serve.memory_fallback or "")
        if code in BEYOND_THE_DEVICE and fallback is not None and not self.state.closing:
            state.backoff_until = now + BACKOFF_CAP
            commands += self._replicas.hand_over_waiting(state, refusals.backing_off(error, BACKOFF_CAP), now)
            self.state.restore(fallback, SwapKind.RESTORE, now)
        return commands + self._reconciler.reconcile(now)

    def on_restart(self, name: str, now: float, reason: str) -> list[Command]:
        """A ready serve is wedged: its streams are cut, and it is stopped and started again."""
        state = self.serves[name]
        if state.phase is not ServePhase.READY:
            return []
        state.wanted = True
        state.touch()
        self.state.open_swap(SwapKind.UNLOAD, None, (state,), now, 0.0, reason)
        return self._reconciler.reconcile(now)

    def on_park(self, name: str, now: float, reason: str) -> list[Command]:
        """Stop a serve, and do not start it until an operator switches to it or its configuration changes."""
        state = self.serves[name]
        state.parked = reason
        state.wanted = False
        state.touch()
        commands = self._replicas.hand_over_waiting(state, refusals.parked(state.serve, reason), now)
        if state.phase is ServePhase.READY:
            self.state.open_swap(SwapKind.UNLOAD, None, (state,), now, 0.0, reason)
        elif state.phase is ServePhase.STARTING:
            commands += self.state.give_up_start(state, now)
        return commands + self._reconciler.reconcile(now)

    def on_measured(self, name: str, size: int, now: float) -> list[Command]:
        """A serve was measured: it holds `size` bytes of its slot."""
        state = self.serves[name]
        if state.measured == size:
            return []
        state.measured = size
        state.touch()
        return self._reconciler.reconcile(now)

    def on_adopted(self, name: str, now: float) -> list[Command]:
        """A serve that an earlier run of Stoker left running was adopted and proved ready."""
        state = self.serves[name]
        state.apply(ServeEvent.STARTED)
        state.apply(ServeEvent.PROVED)
        state.ready_since = now
        if state.is_paused:
            state.wanted = True
            self.state.open_swap(SwapKind.UNLOAD, None, (state,), now, 0.0, state.pause_reason)
        return self._reconciler.reconcile(now)

    def on_tick(self, now: float) -> list[Command]:
        """The time of the last WakeAt has come."""
        self.state.wake = None
        return self._reconciler.reconcile(now)

    # -- the operator --------------------------------------------------------------------------------------------

    def on_switch(
        self, id: int, name: str, now: float, drain_timeout: float | None = None, evict: bool = True
    ) -> list[Command]:
        """Make this serve resident now, even if its residents are protected. Grant(id) when it is ready. Without
        `evict`: only if nothing has to stop for it.
        """
        state = self.serves[name]
        if self.state.closing:
            return [Reject(id, refusals.shutting_down())]
        if state.removed:
            return [Reject(id, refusals.removed(name))]
        if state.is_paused and not state.is_only_suspended():
            return [Reject(id, refusals.slot_paused(state))]
        if state.phase is ServePhase.READY:
            return [Grant(id)]
        fit = victims_for(state) if state.phase is ServePhase.STOPPED else None
        if isinstance(fit, DoesNotFit):
            return [Reject(id, refusals.no_fit(fit))]
        if not evict and not (isinstance(fit, Victims) and not fit.serves) and state.phase is not ServePhase.STARTING:
            victims = [victim.name for victim in fit.serves] if isinstance(fit, Victims) else []
            return [Reject(id, refusals.no_room(name, victims))]
        self._forgive(state)
        state.parked = ""
        self.state.keep_again(state)
        self.state.join_waiting(state)
        state.queue[id] = Waiter(id, Want.SWITCH, now, FOREVER, takes_place=False, drain_timeout=drain_timeout)
        return self._reconciler.reconcile(now)

    def on_preload(self, name: str, now: float) -> list[Command]:
        """Load a serve as soon as it fits beside what is loaded; nothing is evicted for it. Once another serve of
        the slot was used, the preload is dropped.
        """
        state = self.serves[name]
        if not state.wanted:
            state.wanted = True
            state.join_live()
            state.touch()
            state.preload_asked_at = now
        return self._reconciler.reconcile(now)

    def on_unload(self, id: int, name: str, now: float, drain_timeout: float | None = None) -> list[Command]:
        """Drain and stop. Grant(id) once it is gone. A start under way is cancelled, its waiters are refused."""
        state = self.serves[name]
        state.wanted = False
        state.is_unloaded = True
        state.touch()
        for slot_state in state.slot_states:
            slot_state.has_left_idle_serve = False
        if state.phase is ServePhase.STOPPED:
            return [Grant(id)]
        state.unloads.append(id)
        commands: list[Command] = []
        if state.phase is ServePhase.READY:
            drain = state.slot_state.slot.swap.drain_timeout if drain_timeout is None else drain_timeout
            self.state.open_swap(SwapKind.UNLOAD, None, (state,), now, drain)
        elif state.phase is ServePhase.STARTING:
            commands += self.state.refuse_all(state, refusals.unloaded(state.serve)) + self.state.give_up_start(
                state, now
            )
        return commands + self._reconciler.reconcile(now)

    def on_pause(self, slot: str, cause: PauseCause, reason: str, now: float) -> list[Command]:
        """Drain and stop what is loaded in a slot, and load nothing there until every cause is over. Who waits there
        joins another replica, or is refused. What was loaded, or was starting, comes back then.
        """
        slot_state = self.slots[slot]
        slot_state.pauses[cause] = reason
        commands: list[Command] = []
        for state in slot_state.serves:
            if state.is_paused and state.queue and not state.is_only_suspended():
                commands += self._replicas.hand_over_waiting(state, refusals.slot_paused(state), now)
        paused = [state for state in slot_state.serves if not state.is_paused and is_paused(state)]
        for state in paused:
            state.is_paused = True
            state.touch()
        for state in paused:
            commands += self._replicas.hand_over_waiting(state, refusals.slot_paused(state), now)
            if state.phase is ServePhase.READY:
                state.wanted = True
                self.state.open_swap(SwapKind.UNLOAD, None, (state,), now, slot_state.slot.swap.drain_timeout, reason)
            elif state.phase is ServePhase.STARTING:
                commands += self._give_up_for_pause(state, now)
        return commands + self._reconciler.reconcile(now)

    def on_resume(self, slot: str, cause: PauseCause, now: float) -> list[Command]:
        """A cause of a pause is over. After the last one, what was loaded comes back."""
        slot_state = self.slots[slot]
        slot_state.pauses.pop(cause, None)
        for state in slot_state.serves:
            state.is_paused = is_paused(state)
            state.touch()
            if state.wanted:
                state.join_live()
        return self._reconciler.reconcile(now)

    def restore_pauses(self, slots: Mapping[str, str], everywhere: str) -> None:
        """What operators had paused before Stoker was restarted: the reasons by slot, and
        that of all slots of this machine (empty: they
        are not all paused). Call it before anything else; slots that are not configured any more are left out.
        """
        self.state.paused_everywhere = everywhere
        for name, slot_state in self.slots.items():
            reason = slots.get(name) or (everywhere if slot_state.slot.is_here else "")
            if reason:
                slot_state.pauses[PauseCause.OPERATOR] = reason
        for state in self.serves.values():
            state.is_paused = is_paused(state)

    def on_hold(self, name: str, now: float, is_held: bool = True) -> list[Command]:
        """Admit nothing new on this serve, or admit again; running and waiting requests go on."""
        self.serves[name].is_held = is_held
        self.serves[name].touch()
        return self._reconciler.reconcile(now)

    def on_reload(self, slots: Iterable[Slot], serves: Iterable[Serve], now: float) -> list[Command]:
        """A new configuration. Unchanged serves and their streams are untouched; changed ones drain, then restart."""
        for slot in slots:
            if slot.name in self.slots:
                self.slots[slot.name].slot = slot
            else:
                self.state.add_slot(slot)
        fresh = {serve.name: serve for serve in serves}
        commands: list[Command] = []
        for name, state in list(self.serves.items()):
            if name not in fresh:
                commands += self._remove(state, now)
            else:
                commands += self._change(state, fresh[name], now)
        for name, serve in fresh.items():
            if name not in self.serves:
                self.state.add_serve(serve)
        self.state.forget_order()
        return commands + self._reconciler.reconcile(now)

    def on_shutdown(self, now: float) -> list[Command]:
        """Refuse all waiting and new requests; leases go on until they end or are cut."""
        self.state.closing = True
        commands: list[Command] = []
        for state in self.serves.values():
            commands += self.state.refuse_all(state, refusals.shutting_down())
            state.wanted = False
        self.state.forget_order()
        return commands + self._reconciler.reconcile(now)

    def cut_all(self, reason: str) -> list[Command]:
        """Cut every lease: the grace period of the shutdown is over."""
        return [self.state.cut_leases(state, reason) for state in self.serves.values() if state.leases]

    def _failed(
        self, target: ServeState, swap: Swap, now: float, error: StokerError, files: FileMarks
    ) -> list[Command]:
        """A start failed: waiters get its error, the target backs off or, after a lasting failure, cannot load. The
        previous residents come back.

        If the model does not fit on its device, the target's `fallback` is started first.
        """
        commands = self.state.mark_stopped(target)
        is_too_large = error.code in BEYOND_THE_DEVICE and target.serve.memory_fallback is not None
        is_requested = any(w.want is Want.REQUEST for w in target.queue.values())
        target.failures += 1
        target.failed_at = now
        backoff_seconds = BACKOFF_CAP if is_too_large else backoff(target.failures)
        target.backoff_until = now + backoff_seconds
        target.last_error = error
        refusal = refusals.backing_off(error, backoff_seconds) if isinstance(error, StartFailed) else error
        if isinstance(error, StartFailed) and is_lasting(error):
            self._give_up(target, from_failure(target.name, error, files))
            refusal = error
        handed_over = self._replicas.hand_over_waiting(target, refusal, now)
        is_requested = is_requested and not any(isinstance(command, Reassign) for command in handed_over)
        commands += handed_over
        if self.state.closing:
            return commands
        if swap.kind is SwapKind.RESTORE:
            baseline = self.serves.get(target.slot_state.slot.baseline or "")
            if baseline is not None and baseline is not target:
                self.state.restore(baseline, SwapKind.BASELINE, now)
        fallback = self.serves.get(target.serve.memory_fallback or "") if is_too_large and is_requested else None
        if fallback is not None and fallback.slot_state is target.slot_state:
            self.state.restore(fallback, SwapKind.RESTORE, now)
        for victim in swap.victims:
            self.state.restore(victim, SwapKind.RESTORE, now)
        return commands

    def _give_up_for_pause(self, state: ServeState, now: float) -> list[Command]:
        """Who was to stop for the start comes back after the pause; if it has stopped by now, what was started does."""
        swap = next(swap for swap in state.slot_state.swaps.values() if swap.target is state)
        returning = swap.victims if swap.run_at is None and swap.victims else (state,)
        commands = self.state.give_up_start(state, now)
        for comes_back in returning:
            comes_back.wanted = True
            comes_back.join_live()
        return commands

    def _give_up(self, target: ServeState, problem: CannotLoad) -> None:
        """It cannot load; nor can its replicas that are stopped, unless only its device or machine is the reason."""
        states = [target]
        is_everywhere = problem.failure not in LASTING_HERE and target.serve.driver not in (Driver.RAY, Driver.BOX)
        if target.replica_set is not None and is_everywhere:
            states += [replica for replica in target.replica_set.replicas if replica.phase is ServePhase.STOPPED]
        for state in states:
            if not state.is_elsewhere:
                state.cannot_load, state.last_error, state.backoff_until = problem, target.last_error, 0.0
                state.touch()

    def _forgive(self, state: ServeState) -> None:
        """The next start is tried without a pause."""
        state.backoff_until, state.cannot_load = 0.0, None
        state.touch()

    def _refusal(self, state: ServeState, now: float) -> tuple[StokerError | None, bool]:
        """Why a request that is not granted at once cannot wait (None: it can); and whether it waits for a place.

        The numbers are those of `on_request`.
        """
        serve = state.serve
        if self.state.closing:
            return refusals.shutting_down(), False  # 2
        if state.removed:
            return refusals.removed(serve.name), False  # 2
        if state.is_held:
            return refusals.held(serve), False  # 2
        if state.is_paused and not state.is_only_suspended():
            return refusals.slot_paused(state), False  # 2
        if state.parked:
            return refusals.parked(serve, state.parked), False  # 2
        if state.cannot_load is not None:
            return refusals.cannot_load(serve, state.cannot_load), False  # 2
        # Requests that wait for a load find `max_active` places when it is loaded.
        places = 0 if state.phase is ServePhase.READY else serve.max_active
        if len(state.queue) >= serve.queue + places:
            return refusals.queue_full(serve, len(state.queue)), False  # 3
        if state.phase is ServePhase.READY:
            return (refusals.no_place(serve) if serve.queue_timeout <= 0 else None), True  # 4
        if state.phase is ServePhase.STOPPED:
            fit = victims_for(state)
            if isinstance(fit, DoesNotFit):
                return refusals.no_fit(fit), False  # 5
            remaining = state.backoff_until - now
            worth_waiting = 0.0 if serve.driver is Driver.EXTERNAL and state.failures else BACKOFF_WAIT
            if remaining > worth_waiting and state.last_error is not None:
                return refusals.backing_off(state.last_error, remaining), False  # 5
        return None, False  # 6

    def _change(self, state: ServeState, serve: Serve, now: float) -> list[Command]:
        state.removed = False
        if serve != state.serve:
            state.parked, state.cannot_load = "", None
        if state.phase is ServePhase.STOPPED:
            state.backoff_until, state.failures = 0.0, 0
            return self.state.apply_configuration(state, serve)
        if serve.launches_like(state.serve):
            state.pending = None
            state.serve = serve
            self.state.forget_order()
            return []
        state.pending = serve
        commands: list[Command] = []
        if state.phase is ServePhase.READY:
            state.wanted = True  # it was resident: it comes back with the new configuration
            self.state.open_swap(SwapKind.UNLOAD, None, (state,), now, state.slot_state.slot.swap.drain_timeout)
        elif state.phase is ServePhase.STARTING:
            commands += self.state.give_up_start(state, now)
        return commands

    def _remove(self, state: ServeState, now: float) -> list[Command]:
        state.removed = True
        state.wanted = False
        commands = self._replicas.hand_over_waiting(state, refusals.removed(state.name), now)
        if state.phase is ServePhase.STOPPED:
            self.state.remove_serve(state)
        elif state.phase is ServePhase.READY:
            self.state.open_swap(SwapKind.UNLOAD, None, (state,), now, state.slot_state.slot.swap.drain_timeout)
        elif state.phase is ServePhase.STARTING:
            commands += self.state.give_up_start(state, now)
        return commands


def _displaced(state: ServeState, share: FairShare) -> Waiter | None:
    """Who leaves a full queue for a request of this key; None: nobody, the request itself is refused.

    1. of the lowest priority that waits, if that is below the request's own: the last one of the key with the most
    2. of the same priority: the same, if that key has more waiting than the request's key would have
    """
    waiting = [waiter for waiter in state.queue.values() if waiter.want is Want.REQUEST]
    lowest = max((waiter.share.priority for waiter in waiting), default=share.priority)
    if lowest < share.priority:
        return None
    counts = Counter(waiter.share.key for waiter in waiting if waiter.share.priority is lowest)
    key, most = max(counts.items(), key=itemgetter(1), default=("", 0))
    if not most or (lowest is share.priority and (key == share.key or most <= counts[share.key] + 1)):
        return None
    return next(w for w in reversed(waiting) if w.share.key == key and w.share.priority is lowest)
