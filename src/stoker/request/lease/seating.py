"""The seats, and the elementary steps by which they change. No step decides anything: `settle` and `scheduler` do."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.errors import StokerError
from stoker.domain.serve import Serve, Slot
from stoker.request.lease.commands import CancelSwap, Command, Cut, Grant, Reject, StartSwap
from stoker.request.lease.eviction import Victims, victims_for
from stoker.request.lease.state import Phase, Room, Seat, Swap, SwapKind, Waiter
from stoker.request.lease.timing import timing


class Seating:
    """Every serve and slot at run time."""

    def __init__(self, slots: Iterable[Slot], serves: Iterable[Serve]) -> None:
        self.rooms: dict[str, Room] = {slot.name: Room(slot) for slot in slots}
        self.seats: dict[str, Seat] = {}
        self.generation = 0
        for serve in serves:
            self.add(serve)

    def add(self, serve: Serve) -> None:
        name = serve.slot or f"~{serve.name}"
        room = self.rooms.get(name)
        if room is None:
            room = self.rooms[name] = Room(Slot(name))
        seat = Seat(serve, room, wanted=serve.keep_loaded)
        room.seats.append(seat)
        self.seats[serve.name] = seat

    def forget(self, seat: Seat) -> None:
        seat.room.seats.remove(seat)
        self.seats.pop(seat.name, None)

    def apply(self, seat: Seat, serve: Serve) -> None:
        """A stopped serve takes its new configuration; waiters come along."""
        seat.pending = None
        if (serve.slot or f"~{serve.name}") == seat.room.slot.name:
            seat.serve = serve
            return
        self.forget(seat)
        self.add(serve)
        moved = self.seats[serve.name]
        moved.queue, moved.wanted, moved.held = seat.queue, seat.wanted or serve.keep_loaded, seat.held

    def find_swap(self, generation: int) -> tuple[Room | None, Swap | None]:
        for room in self.rooms.values():
            if generation in room.swaps:
                return room, room.swaps[generation]
        return None, None

    def lease(self, seat: Seat, id: int, counted: bool) -> None:
        seat.leases[id] = counted
        seat.active += counted

    def cut(self, seat: Seat, reason: str) -> Command:
        return Cut(seat.name, seat.end(seat.leases), reason)

    def give_way(self, seat: Seat) -> list[Command]:
        """Its leases that yield are taken away."""
        return [Cut(seat.name, seat.end(seat.yielding), "others wait for its place")] if seat.yielding else []

    def refuse_all(self, seat: Seat, error: StokerError) -> list[Command]:
        commands: list[Command] = [Reject(id, error) for id in seat.queue]
        seat.queue.clear()
        return commands

    def wait_for_load(self, seat: Seat, waiter: Waiter, now: float) -> None:
        """Who waited for a place waits for a load now."""
        if waiter.for_place:
            waiter.for_place = False
            waiter.deadline = now + timing(seat).swap_timeout

    def open_swap(
        self,
        kind: SwapKind,
        target: Seat | None,
        victims: tuple[Seat, ...],
        now: float,
        drain: float,
        reason: str = "",
    ) -> None:
        """A swap is decided. It runs in step 6 of `settle`, at once if its victims hold no lease."""
        room = victims[0].room if target is None else target.room
        self.generation += 1
        room.swaps[self.generation] = Swap(self.generation, kind, target, victims, now, now + drain, reason=reason)
        if target is not None:
            target.phase = Phase.STARTING
            room.swaps_made += 1
        for victim in victims:
            victim.phase = Phase.DRAINING

    def run_swap(self, swap: Swap, now: float) -> Command:
        swap.run_at = now
        for victim in swap.victims:
            victim.phase = Phase.STOPPING
        name = swap.target.name if swap.target is not None else None
        return StartSwap(swap.generation, name, tuple(v.name for v in swap.victims))

    def take_back(self, swap: Swap, now: float) -> None:
        """Nobody waits any more and the victims still drain: everybody stays where he was."""
        target = swap.target
        if target is None:
            raise ValueError("an unload is not taken back")
        del target.room.swaps[swap.generation]
        target.room.swaps_made -= 1
        target.phase = Phase.STOPPED
        for victim in swap.victims:
            victim.phase = Phase.READY
            if victim.exited or victim.must_stop():
                self.open_swap(SwapKind.UNLOAD, None, (victim,), now, max(0.0, swap.drain_deadline - now))

    def untouched(self, swap: Swap, now: float) -> list[Command]:
        """What was found before the victims were touched forbids the swap: they go on as if nothing had been."""
        commands: list[Command] = []
        for victim in swap.victims:
            if victim.exited:
                commands += self.stopped(victim)
                continue
            victim.phase = Phase.READY
            if victim.must_stop():
                self.open_swap(SwapKind.UNLOAD, None, (victim,), now, 0.0)
        return commands

    def abandon(self, seat: Seat, now: float) -> list[Command]:
        """Give up a start: before its drain ended by taking it back, after that by cancelling it."""
        for swap in list(seat.room.swaps.values()):
            if swap.target is seat:
                if swap.run_at is None:
                    self.take_back(swap, now)
                    return self.stopped(seat)
                swap.cancelled = True
                return [CancelSwap(swap.generation)]
        return []

    def ready(self, seat: Seat, swap: Swap, now: float) -> None:
        seat.phase = Phase.READY
        seat.ready_since = seat.idle_since = now
        seat.failures = 0
        seat.backoff_until = 0.0
        seat.last_error = None
        seat.wanted = seat.serve.keep_loaded
        seat.exited = False
        if swap.run_at is not None:
            seat.swap_times.append(now - swap.run_at)

    def stopped(self, seat: Seat) -> list[Command]:
        seat.phase = Phase.STOPPED
        seat.exited = False
        seat.measured = None  # what it will hold next time is what was declared, until it is measured again
        seat.end(seat.leases)
        commands: list[Command] = [Grant(id) for id in seat.unloads]
        seat.unloads.clear()
        if seat.pending is not None:
            self.apply(seat, seat.pending)
        if seat.removed:
            self.forget(seat)
        return commands

    def restore(self, seat: Seat, kind: SwapKind, now: float) -> None:
        if self.seats.get(seat.name) is not seat or seat.phase is not Phase.STOPPED or seat.held or seat.parked:
            return
        fit = victims_for(seat)
        if isinstance(fit, Victims) and not fit.seats:
            self.open_swap(kind, seat, (), now, 0.0)
