"""The seats, and the elementary steps by which they change. No step decides anything: `settle` and `scheduler` do."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.errors import StokerError
from stoker.domain.serve import Serve, Slot
from stoker.request.lease.commands import CancelSwap, Command, Cut, Grant, Reject, StartSwap
from stoker.request.lease.eviction import Victims, victims_for
from stoker.request.lease.state import ServePhase, ServeState, SlotState, Swap, SwapKind, Waiter
from stoker.request.lease.timing import timing


class Transitions:
    """Every serve and slot at run time."""

    def __init__(self, slots: Iterable[Slot], serves: Iterable[Serve]) -> None:
        self.slots: dict[str, SlotState] = {slot.name: SlotState(slot) for slot in slots}
        self.serves: dict[str, ServeState] = {}
        self.generation = 0
        for serve in serves:
            self.add_serve(serve)

    def add_serve(self, serve: Serve) -> None:
        name = serve.slot or f"~{serve.name}"
        room = self.slots.get(name)
        if room is None:
            room = self.slots[name] = SlotState(Slot(name))
        seat = ServeState(serve, room, wanted=serve.keep_loaded)
        room.serves.append(seat)
        self.serves[serve.name] = seat

    def remove_serve(self, seat: ServeState) -> None:
        seat.slot_state.serves.remove(seat)
        self.serves.pop(seat.name, None)

    def apply_configuration(self, seat: ServeState, serve: Serve) -> None:
        """A stopped serve takes its new configuration; waiters come along."""
        seat.pending = None
        if (serve.slot or f"~{serve.name}") == seat.slot_state.slot.name:
            seat.serve = serve
            return
        self.remove_serve(seat)
        self.add_serve(serve)
        moved = self.serves[serve.name]
        moved.queue, moved.wanted, moved.held = seat.queue, seat.wanted or serve.keep_loaded, seat.held

    def find_swap(self, generation: int) -> tuple[SlotState | None, Swap | None]:
        for room in self.slots.values():
            if generation in room.swaps:
                return room, room.swaps[generation]
        return None, None

    def add_lease(self, seat: ServeState, id: int, counted: bool) -> None:
        seat.leases[id] = counted
        seat.active += counted

    def cut_leases(self, seat: ServeState, reason: str) -> Command:
        return Cut(seat.name, seat.end_leases(seat.leases), reason)

    def cut_yielding(self, seat: ServeState) -> list[Command]:
        """Its leases that yield are taken away."""
        return [Cut(seat.name, seat.end_leases(seat.yielding), "others wait for its place")] if seat.yielding else []

    def refuse_all(self, seat: ServeState, error: StokerError) -> list[Command]:
        commands: list[Command] = [Reject(id, error) for id in seat.queue]
        seat.queue.clear()
        return commands

    def wait_for_load(self, seat: ServeState, waiter: Waiter, now: float) -> None:
        """Who waited for a place waits for a load now."""
        if waiter.for_place:
            waiter.for_place = False
            waiter.deadline = now + timing(seat).swap_timeout

    def open_swap(
        self,
        kind: SwapKind,
        target: ServeState | None,
        victims: tuple[ServeState, ...],
        now: float,
        drain: float,
        reason: str = "",
    ) -> None:
        """A swap is decided. It runs in step 6 of `settle`, at once if its victims hold no lease."""
        room = victims[0].slot_state if target is None else target.slot_state
        self.generation += 1
        room.swaps[self.generation] = Swap(self.generation, kind, target, victims, now, now + drain, reason=reason)
        if target is not None:
            target.phase = ServePhase.STARTING
            room.swaps_made += 1
        for victim in victims:
            victim.phase = ServePhase.DRAINING

    def run_swap(self, swap: Swap, now: float) -> Command:
        swap.run_at = now
        for victim in swap.victims:
            victim.phase = ServePhase.STOPPING
        name = swap.target.name if swap.target is not None else None
        return StartSwap(swap.generation, name, tuple(v.name for v in swap.victims))

    def call_off(self, swap: Swap, now: float) -> None:
        """Nobody waits any more and the victims still drain: everybody stays where he was."""
        target = swap.target
        if target is None:
            raise ValueError("an unload is not taken back")
        del target.slot_state.swaps[swap.generation]
        target.slot_state.swaps_made -= 1
        target.phase = ServePhase.STOPPED
        for victim in swap.victims:
            victim.phase = ServePhase.READY
            if victim.exited or victim.must_stop():
                self.open_swap(SwapKind.UNLOAD, None, (victim,), now, max(0.0, swap.drain_deadline - now))

    def spare_victims(self, swap: Swap, now: float) -> list[Command]:
        """What was found before the victims were touched forbids the swap: they go on as if nothing had been."""
        commands: list[Command] = []
        for victim in swap.victims:
            if victim.exited:
                commands += self.mark_stopped(victim)
                continue
            victim.phase = ServePhase.READY
            if victim.must_stop():
                self.open_swap(SwapKind.UNLOAD, None, (victim,), now, 0.0)
        return commands

    def abandon_start(self, seat: ServeState, now: float) -> list[Command]:
        """Give up a start: before its drain ended by taking it back, after that by cancelling it."""
        for swap in list(seat.slot_state.swaps.values()):
            if swap.target is seat:
                if swap.run_at is None:
                    self.call_off(swap, now)
                    return self.mark_stopped(seat)
                swap.cancelled = True
                return [CancelSwap(swap.generation)]
        return []

    def mark_ready(self, seat: ServeState, swap: Swap, now: float) -> None:
        seat.phase = ServePhase.READY
        seat.ready_since = seat.idle_since = now
        seat.failures = 0
        seat.backoff_until = 0.0
        seat.last_error = None
        seat.wanted = seat.serve.keep_loaded
        seat.exited = False
        if swap.run_at is not None:
            seat.swap_times.append(now - swap.run_at)

    def mark_stopped(self, seat: ServeState) -> list[Command]:
        seat.phase = ServePhase.STOPPED
        seat.exited = False
        seat.measured = None  # what it will hold next time is what was declared, until it is measured again
        seat.end_leases(seat.leases)
        commands: list[Command] = [Grant(id) for id in seat.unloads]
        seat.unloads.clear()
        if seat.pending is not None:
            self.apply_configuration(seat, seat.pending)
        if seat.removed:
            self.remove_serve(seat)
        return commands

    def restore(self, seat: ServeState, kind: SwapKind, now: float) -> None:
        if self.serves.get(seat.name) is not seat or seat.phase is not ServePhase.STOPPED or seat.held or seat.parked:
            return
        fit = victims_for(seat)
        if isinstance(fit, Victims) and not fit.serves:
            self.open_swap(kind, seat, (), now, 0.0)
