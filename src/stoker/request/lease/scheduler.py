"""The lease scheduler: who may run now, who must wait, who must go.

Every input takes `now` (monotonic seconds) and returns commands, to be carried out in order. Apart from the short ways
marked *hot*, each input changes one thing and then calls `settle`, the only place where anything is decided.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.errors import BEYOND_THE_DEVICE, StartFailed, StokerError
from stoker.domain.serve import Serve, Slot
from stoker.request.lease import refusals
from stoker.request.lease.commands import Command, Grant, Reject
from stoker.request.lease.eviction import Never, victims_for
from stoker.request.lease.settle import FOREVER, Settler
from stoker.request.lease.state import ServePhase, ServeState, SlotState, Swap, SwapKind, Waiter, Want
from stoker.request.lease.timing import BACKOFF_CAP, BACKOFF_WAIT, STEADY_AFTER, backoff, timing


class Scheduler(Settler):
    """See the module's docstring. Not thread-safe; never blocks; raises only on a caller's misuse (unknown serve)."""

    # -- requests ------------------------------------------------------------------------------------------------

    def on_request(self, id: int, name: str, now: float, counted: bool = True) -> list[Command]:
        """A request for a serve that exists. It is granted, refused, or waits.

        1. ready, nobody before it, a place free (or none needed) -> Grant        (hot)
           no place free, but a lease that yields                 -> Cut, Grant
        2. shutting down, drained by the operator, or parked      -> Reject
        3. the queue is full (for a load: `max_active` more)      -> Reject
        4. ready, but no place: `queue_timeout`, 0 = Reject at once
        5. can never fit, or backs off for long                   -> Reject
        6. otherwise it waits for the load, at most `swap_timeout`
        """
        seat = self.serves[name]
        is_open = seat.phase is ServePhase.READY and not seat.held and not self.closing
        if is_open and (not counted or (not seat.queue and seat.active < seat.serve.max_active)):
            self.add_lease(seat, id, counted)
            return [Grant(id)]  # 1
        gone = self.cut_yielding(seat) if is_open else []
        if gone and seat.has_place():
            self.add_lease(seat, id, counted)
            return [*gone, Grant(id)]  # 1
        error, for_place = self._refusal(seat, now)
        if error is not None:
            return [*gone, Reject(id, error)]
        patience = seat.serve.queue_timeout if for_place else timing(seat).swap_timeout
        seat.queue[id] = Waiter(id, Want.REQUEST, now, now + patience, counted, for_place)
        return [*gone, *self.settle(now)]

    def on_cancel(self, id: int, name: str, now: float) -> list[Command]:
        """A waiter leaves. One that was granted in the same moment gives its lease back."""
        seat = self.serves.get(name)
        if seat is None:
            return []
        if seat.queue.pop(id, None) is None:
            return self.on_served(id, name, now)
        return self.settle(now)

    def on_served(self, id: int, name: str, now: float) -> list[Command]:
        """A lease ends. Unknown ones (cut, or their serve has exited) are ignored."""
        seat = self.serves.get(name)
        counted = seat.leases.pop(id, None) if seat is not None else None
        if seat is None or counted is None:
            return []
        seat.active -= counted
        if id in seat.yielding:
            seat.yielding.remove(id)
        else:
            seat.idle_since = now
        if seat.phase is ServePhase.READY and seat.slot_state.is_quiet():
            idle = seat.serve.idle_unload
            if idle is None or (self.wake is not None and self.wake <= now + idle):
                return []  # hot
        return self.settle(now)

    def on_yield(self, id: int, name: str, now: float) -> list[Command]:
        """A lease ends as soon as somebody waits for its place, or for the memory of its serve; it keeps no serve from
        being idle. Unknown ones, and those that take no place, are ignored.
        """
        seat = self.serves.get(name)
        if seat is None or not seat.leases.get(id):
            return []
        seat.yielding.add(id)
        return self.settle(now)

    # -- the fleet -----------------------------------------------------------------------------------------------

    def on_swap_done(
        self,
        generation: int,
        now: float,
        error: StokerError | None = None,
        cancelled: bool = False,
        untouched: bool = False,
    ) -> list[Command]:
        """What came of a StartSwap. Results of other generations are ignored.

        The victims are gone, unless it is `untouched`: it failed, or was cancelled, before the first one was stopped.
        """
        room, swap = self.find_swap(generation)
        if room is None or swap is None:
            return []
        del room.swaps[generation]
        commands: list[Command] = []
        if untouched:
            commands += self.spare_victims(swap, now)
        else:
            for victim in swap.victims:
                commands += self.mark_stopped(victim)
        target = swap.target
        if target is None:
            return commands + self.settle(now)
        if error is None and not cancelled:
            self.mark_ready(target, swap, now)
            if target.must_stop():
                self.open_swap(SwapKind.UNLOAD, None, (target,), now, 0.0)
        elif cancelled or swap.cancelled or error is None:
            commands += self.mark_stopped(target)
        else:
            commands += self._failed(target, swap, now, error)
        return commands + self.settle(now)

    def on_exit(self, name: str, now: float, detail: str = "", code: str = "") -> list[Command]:
        """A serve that was ready has ended by itself. `code` names the failure, where it is known.

        Where its device is not up to it, who waits is refused, and its `fallback` comes up for whoever asks again.
        """
        seat = self.serves.get(name)
        if seat is None or seat.phase not in (ServePhase.READY, ServePhase.DRAINING):
            if seat is not None and seat.phase is ServePhase.STOPPING:
                seat.exited = True  # its swap may yet be found impossible, and leave it as it is: gone
            return []  # a start or a stop reports through on_swap_done
        seat.end_leases(seat.leases)
        seat.last_error = error = refusals.exited(seat.serve, detail, code)
        if seat.phase is ServePhase.DRAINING:
            seat.exited = True
            return self.settle(now)
        if now - seat.ready_since < STEADY_AFTER:
            seat.crashes += 1
            seat.backoff_until = now + backoff(seat.crashes)
        else:
            seat.crashes = 0
        commands = self.mark_stopped(seat)
        fallback = self.serves.get(seat.serve.fallback or "")
        if code in BEYOND_THE_DEVICE and fallback is not None and not self.closing:
            seat.backoff_until = now + BACKOFF_CAP
            commands += self.refuse_all(seat, refusals.backing_off(error, BACKOFF_CAP))
            self.restore(fallback, SwapKind.RESTORE, now)
        for waiter in seat.queue.values():
            self.wait_for_load(seat, waiter, now)
        return commands + self.settle(now)

    def on_restart(self, name: str, now: float, reason: str) -> list[Command]:
        """It runs and is wedged: its streams are cut, it is stopped and started again. Not ready: nothing."""
        seat = self.serves[name]
        if seat.phase is not ServePhase.READY:
            return []
        seat.wanted = True
        for waiter in seat.queue.values():
            self.wait_for_load(seat, waiter, now)
        self.open_swap(SwapKind.UNLOAD, None, (seat,), now, 0.0, reason)
        return self.settle(now)

    def on_park(self, name: str, now: float, reason: str) -> list[Command]:
        """Not to be started any more until an operator switches to it, or its configuration changes."""
        seat = self.serves[name]
        seat.parked = reason
        seat.wanted = False
        commands = self.refuse_all(seat, refusals.parked(seat.serve, reason))
        if seat.phase is ServePhase.READY:
            self.open_swap(SwapKind.UNLOAD, None, (seat,), now, 0.0, reason)
        elif seat.phase is ServePhase.STARTING:
            commands += self.abandon_start(seat, now)
        return commands + self.settle(now)

    def on_measured(self, name: str, size: int, now: float) -> list[Command]:
        """What a serve was seen to hold of its slot, in bytes."""
        seat = self.serves[name]
        if seat.measured == size:
            return []
        seat.measured = size
        return self.settle(now)

    def on_adopted(self, name: str, now: float) -> list[Command]:
        """A serve of an earlier control plane is running and proved."""
        seat = self.serves[name]
        if seat.phase is not ServePhase.STOPPED:
            raise ValueError(f"adopted '{name}' is {seat.phase.value}")
        seat.phase = ServePhase.READY
        seat.ready_since = seat.idle_since = now
        return self.settle(now)

    def on_tick(self, now: float) -> list[Command]:
        """The time of the last WakeAt has come."""
        self.wake = None
        return self.settle(now)

    # -- the operator --------------------------------------------------------------------------------------------

    def on_switch(self, id: int, name: str, now: float, drain_timeout: float | None = None) -> list[Command]:
        """Make this serve resident now, whatever hysteresis says. Grant(id) when it is ready."""
        seat = self.serves[name]
        if self.closing:
            return [Reject(id, refusals.shutting_down())]
        if seat.phase is ServePhase.READY:
            return [Grant(id)]
        fit = victims_for(seat) if seat.phase is ServePhase.STOPPED else None
        if isinstance(fit, Never):
            return [Reject(id, refusals.no_fit(fit))]
        seat.backoff_until = 0.0
        seat.parked = ""
        seat.queue[id] = Waiter(id, Want.SWITCH, now, FOREVER, counted=False, drain_timeout=drain_timeout)
        return self.settle(now)

    def on_preload(self, name: str, now: float) -> list[Command]:
        """Load it whenever it fits beside what is there; nobody is moved out for it."""
        self.serves[name].wanted = True
        return self.settle(now)

    def on_unload(self, id: int, name: str, now: float, drain_timeout: float | None = None) -> list[Command]:
        """Drain and stop. Grant(id) once it is gone. A start under way is cancelled, its waiters are refused."""
        seat = self.serves[name]
        seat.wanted = False
        if seat.phase is ServePhase.STOPPED:
            return [Grant(id)]
        seat.unloads.append(id)
        commands: list[Command] = []
        if seat.phase is ServePhase.READY:
            drain = seat.slot_state.slot.swap.drain_timeout if drain_timeout is None else drain_timeout
            self.open_swap(SwapKind.UNLOAD, None, (seat,), now, drain)
        elif seat.phase is ServePhase.STARTING:
            commands += self.refuse_all(seat, refusals.unloaded(seat.serve)) + self.abandon_start(seat, now)
        return commands + self.settle(now)

    def on_drain(self, name: str, now: float, held: bool = True) -> list[Command]:
        """Admit nothing new on this serve (or admit again); what runs or waits goes on."""
        self.serves[name].held = held
        return self.settle(now)

    def on_reload(self, slots: Iterable[Slot], serves: Iterable[Serve], now: float) -> list[Command]:
        """A new configuration. Unchanged serves and their streams are untouched; changed ones drain, then restart."""
        for slot in slots:
            if slot.name in self.slots:
                self.slots[slot.name].slot = slot
            else:
                self.slots[slot.name] = SlotState(slot)
        fresh = {serve.name: serve for serve in serves}
        commands: list[Command] = []
        for name, seat in list(self.serves.items()):
            if name not in fresh:
                commands += self._remove(seat, now)
            else:
                commands += self._change(seat, fresh[name], now)
        for name, serve in fresh.items():
            if name not in self.serves:
                self.add_serve(serve)
        return commands + self.settle(now)

    def on_shutdown(self, now: float) -> list[Command]:
        """Refuse everybody who waits, admit nobody; leases go on until they end or are cut."""
        self.closing = True
        commands: list[Command] = []
        for seat in self.serves.values():
            commands += self.refuse_all(seat, refusals.shutting_down())
            seat.wanted = False
        return commands + self.settle(now)

    def cut_all(self, reason: str) -> list[Command]:
        """Take every lease away; the shutdown's own time is over."""
        return [self.cut_leases(seat, reason) for seat in self.serves.values() if seat.leases]

    def _failed(self, target: ServeState, swap: Swap, now: float, error: StokerError) -> list[Command]:
        """Rule 9: waiters get the original error, the target backs off, the previous residents come back.

        Where its device is not up to it, the target's `fallback` comes first: who asked will ask for that now.
        """
        commands = self.mark_stopped(target)
        beyond = error.code in BEYOND_THE_DEVICE and target.serve.fallback is not None
        requested = any(w.want is Want.REQUEST for w in target.queue.values())
        target.failures += 1
        again = BACKOFF_CAP if beyond else backoff(target.failures)
        target.backoff_until = now + again
        target.last_error = error
        told = refusals.backing_off(error, again) if isinstance(error, StartFailed) else error
        commands += self.refuse_all(target, told)
        if self.closing:
            return commands
        if swap.kind is SwapKind.RESTORE:
            baseline = self.serves.get(target.slot_state.slot.baseline or "")
            if baseline is not None and baseline is not target:
                self.restore(baseline, SwapKind.BASELINE, now)
        fallback = self.serves.get(target.serve.fallback or "") if beyond and requested else None
        if fallback is not None and fallback.slot_state is target.slot_state:
            self.restore(fallback, SwapKind.RESTORE, now)
        for victim in swap.victims:
            self.restore(victim, SwapKind.RESTORE, now)
        return commands

    def _refusal(self, seat: ServeState, now: float) -> tuple[StokerError | None, bool]:
        """Why a request that is not granted at once cannot wait either; and whether it would wait for a place."""
        serve = seat.serve
        if self.closing:
            return refusals.shutting_down(), False  # 2
        if seat.held or seat.removed:
            return refusals.held(serve), False  # 2
        if seat.parked:
            return refusals.parked(serve, seat.parked), False  # 2
        places = 0 if seat.phase is ServePhase.READY else serve.max_active  # who waits for a load may find a place then
        if len(seat.queue) >= serve.queue + places:
            return refusals.queue_full(serve, len(seat.queue)), False  # 3
        if seat.phase is ServePhase.READY:
            return (refusals.no_place(serve) if serve.queue_timeout <= 0 else None), True  # 4
        if seat.phase is ServePhase.STOPPED:
            fit = victims_for(seat)
            if isinstance(fit, Never):
                return refusals.no_fit(fit), False  # 5
            remaining = seat.backoff_until - now
            if remaining > BACKOFF_WAIT and seat.last_error is not None:
                return refusals.backing_off(seat.last_error, remaining), False  # 5
        return None, False  # 6

    def _change(self, seat: ServeState, serve: Serve, now: float) -> list[Command]:
        seat.removed = False
        if serve != seat.serve:
            seat.parked = ""
        if seat.phase is ServePhase.STOPPED:
            seat.backoff_until, seat.failures = 0.0, 0
            self.apply_configuration(seat, serve)
            return []
        if serve.launches_like(seat.serve):
            seat.pending = None
            seat.serve = serve
            return []
        seat.pending = serve
        commands: list[Command] = []
        if seat.phase is ServePhase.READY:
            seat.wanted = True  # it was resident: it comes back with the new configuration
            self.open_swap(SwapKind.UNLOAD, None, (seat,), now, seat.slot_state.slot.swap.drain_timeout)
        elif seat.phase is ServePhase.STARTING:
            commands += self.abandon_start(seat, now)
        return commands

    def _remove(self, seat: ServeState, now: float) -> list[Command]:
        seat.removed = True
        seat.wanted = False
        commands = self.refuse_all(seat, refusals.removed(seat.name))
        if seat.phase is ServePhase.STOPPED:
            self.remove_serve(seat)
        elif seat.phase is ServePhase.READY:
            self.open_swap(SwapKind.UNLOAD, None, (seat,), now, seat.slot_state.slot.swap.drain_timeout)
        elif seat.phase is ServePhase.STARTING:
            commands += self.abandon_start(seat, now)
        return commands
