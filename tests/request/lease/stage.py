"""A stage for scheduler stories: events in, commands out, on a clock that only the story moves."""

from __future__ import annotations

from typing import Any

from stoker.domain.errors import StartFailed, StokerError
from stoker.domain.key import Priority
from stoker.domain.lease import NOBODY, FairShare, Lease, Target
from stoker.domain.serve import Serve, Slot, SwapPolicy
from stoker.domain.usage import ServeUsage
from stoker.request.lease.commands import (
    CancelSwap,
    CheckStart,
    Command,
    Cut,
    Grant,
    Reassign,
    Reject,
    StartSwap,
    WakeAt,
)
from stoker.request.lease.places import choose_replica
from stoker.request.lease.scheduler import Scheduler
from stoker.request.lease.state import PauseCause


def serve(name: str, **fields: Any) -> Serve:
    fields.setdefault("slot", "gpu")
    return Serve(name=name, **fields)


def replicated(name: str, slots: str, replicas: int = 1, **fields: Any) -> list[Serve]:
    """A serve with a place in each of these slots (`"gpu0 gpu1"`), at most `replicas` of them loaded."""
    return [
        Serve(name=f"{name}@{slot}", slot=slot, replica_of=name, replicas=replicas, **fields) for slot in slots.split()
    ]


class Stage:
    """Drives a Scheduler; keeps what was granted, refused and asked for."""

    def __init__(
        self, *serves: Serve, memory: int | None = None, baseline: str | None = None, together: str = "",
        idle_serve: str | None = None, slots: str = "gpu", **policy: Any,
    ) -> None:  # fmt: skip
        """`together`: `"ac bc"` for the sets {a, c} and {b, c}. The slot returns to `idle_serve` after 60 s. `slots`:
        their names, `"gpu0 gpu1"`; all are alike.
        """
        self.now = 0.0
        groups = tuple(map(frozenset, together.split()))
        swap = SwapPolicy(**policy)
        made = [
            Slot(name, memory=memory, together=groups, baseline=baseline, idle_serve=idle_serve, swap=swap)
            for name in slots.split()
        ]
        self.scheduler = Scheduler(made, serves)
        self.where: dict[int, str] = {}
        """By request, the replica that it joined last."""
        self.granted: list[int] = []
        self.refused: dict[int, StokerError] = {}
        self.cut: list[int] = []
        self.swaps: list[StartSwap] = []
        self.cancelled: list[int] = []
        self.looks: list[CheckStart] = []
        self.wake: float | None = None
        self._next = 0

    @property
    def next_id(self) -> int:
        """Of the next request."""
        return self._next + 1

    def take(self, commands: list[Command]) -> list[Command]:
        for command in commands:
            match command:
                case Grant(id):
                    self.granted.append(id)
                case Reject(id, error):
                    self.refused[id] = error
                case Cut(_, leases, _):
                    self.cut += leases
                case Reassign(id, name):
                    self.where[id] = name
                case CheckStart():
                    self.looks.append(command)
                case StartSwap():
                    self.swaps.append(command)
                case CancelSwap(swap_id):
                    self.cancelled.append(swap_id)
                case WakeAt(at):
                    self.wake = at
        return commands

    def request(self, name: str, takes_place: bool = True, share: FairShare = NOBODY, body_bytes: int = 0) -> int:
        self._next += 1
        commands = self.scheduler.on_request(self._next, name, self.now, takes_place, share, body_bytes)
        self.take(commands)
        return self._next

    def join(self, name: str, missing: dict[str, int] | None = None) -> int:
        """A request for a serve with several places."""
        replica = choose_replica(self.scheduler.replica_sets[name].replicas, self.now, missing)
        self.where[self.next_id] = replica.name
        return self.request(replica.name)

    def allow_preemption(self, id: int, name: str, priority: Priority | None = None) -> int:
        self.take(self.scheduler.on_preemption_allowed(id, name, self.now, priority))
        return id

    def switch(self, name: str, drain: float | None = None) -> int:
        self._next += 1
        self.take(self.scheduler.on_switch(self._next, name, self.now, drain))
        return self._next

    def preload(self, name: str) -> None:
        self.take(self.scheduler.on_preload(name, self.now))

    def unload(self, name: str, drain: float | None = None) -> int:
        self._next += 1
        self.take(self.scheduler.on_unload(self._next, name, self.now, drain))
        return self._next

    def pause(self, slot: str = "gpu", cause: PauseCause = PauseCause.OPERATOR, reason: str = "a game runs") -> None:
        self.take(self.scheduler.on_pause(slot, cause, reason, self.now))

    def resume(self, slot: str = "gpu", cause: PauseCause = PauseCause.OPERATOR) -> None:
        self.take(self.scheduler.on_resume(slot, cause, self.now))

    def served(self, id: int, name: str, output: int | None = None) -> None:
        """A request ends. `output`: the tokens of its answer; None: its serve did not say."""
        if output is not None:
            state = self.scheduler.serves[name]
            entered = state.slot_state.time.enter(self.now)
            lease = Lease(id, name, Target("127.0.0.1", 1), self.now, 0.0, lambda _: None, state, entered)
            lease.record(ServeUsage(name, output=output))
            state.end(lease, self.now)
        self.take(self.scheduler.on_release(id, name, self.now))

    def leaves(self, id: int, name: str) -> None:
        self.take(self.scheduler.on_cancel(id, name, self.now))

    def ready(self, after: float = 0.0, error: StokerError | None = None, cancelled: bool = False) -> None:
        """The oldest swap that is under way ends."""
        self.to(self.now + after)
        swap = self.swaps.pop(0)
        self.take(self.scheduler.on_swap_done(swap.swap_id, self.now, error, cancelled))

    def fails(self, text: str = "out of memory", after: float = 0.0) -> None:
        self.ready(after, StartFailed(text))

    def untouched(self, text: str = "the weights are gone") -> None:
        """The oldest swap under way is found impossible before its victims are stopped."""
        swap = self.swaps.pop(0)
        self.take(self.scheduler.on_swap_done(swap.swap_id, self.now, StartFailed(text), victims_untouched=True))

    def to(self, at: float) -> None:
        """Time passes; ticks come when they were asked for."""
        for _ in range(1000):
            if self.wake is None or self.wake > at:
                break
            self.now = max(self.now, self.wake)
            self.wake = None
            self.take(self.scheduler.on_tick(self.now))
        else:
            raise AssertionError("the scheduler asks for ticks without end")
        self.now = max(self.now, at)

    def load(self, name: str, took: float = 0.0) -> None:
        """Bring a serve up without anybody waiting, and let its residency pass into memory as `took`."""
        id = self.switch(name)
        self.ready(took)
        assert id in self.granted

    def phase(self, name: str) -> str:
        return self.scheduler.serves[name].phase.value
