"""What the scheduler remembers. Only `scheduler` changes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from stoker.domain.errors import StokerError
from stoker.domain.serve import Serve, Slot


class ServePhase(Enum):
    """Where a serve is. A serve that is STARTING is never a victim."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"


class Want(Enum):
    """What a waiter waits for."""

    REQUEST = "request"
    SWITCH = "switch"


class SwapKind(Enum):
    """Why a swap was decided."""

    DEMAND = "demand"
    UNLOAD = "unload"
    RESTORE = "restore"
    BASELINE = "baseline"


@dataclass(slots=True)
class Waiter:
    """A request (or an operator's switch) that is not served yet. Times are monotonic seconds."""

    id: int
    want: Want
    since: float
    deadline: float
    counted: bool = True
    """Takes one of the serve's `max_active` places."""
    for_place: bool = False
    """Waits for a place on a ready serve, not for a load."""
    drain_timeout: float | None = None
    """A switch may bring its own."""


@dataclass(slots=True, eq=False)
class ServeState:
    """One serve at run time."""

    serve: Serve
    slot_state: SlotState
    phase: ServePhase = ServePhase.STOPPED
    leases: dict[int, bool] = field(default_factory=dict)
    """Lease id -> whether it takes a place."""
    active: int = 0
    """Leases that take a place."""
    yielding: set[int] = field(default_factory=set)
    """Leases that end as soon as somebody else could use what they hold."""
    queue: dict[int, Waiter] = field(default_factory=dict)
    """In order of arrival."""
    ready_since: float = 0.0
    idle_since: float = 0.0
    swap_times: deque[float] = field(default_factory=lambda: deque(maxlen=5))
    failures: int = 0
    """Failed starts in a row."""
    crashes: int = 0
    """Exits soon after ready, in a row."""
    backoff_until: float = 0.0
    last_error: StokerError | None = None
    held: bool = False
    """Drained by the operator: nothing new is admitted."""
    wanted: bool = False
    """To be loaded whenever it fits beside what is there, without a request."""
    exited: bool = False
    """Ended by itself while it was draining."""
    pending: Serve | None = None
    """The configuration to change to once it is stopped."""
    removed: bool = False
    parked: str = ""
    """Why it is not started any more until an operator says so; empty: it is not parked."""
    measured: int | None = None
    """Bytes of the slot that it was last seen to hold; None: not since its start."""
    unloads: list[int] = field(default_factory=list)
    """Operators' unloads that wait for the stop."""

    @property
    def name(self) -> str:
        return self.serve.name

    @property
    def weight(self) -> int:
        """What it takes of its slot's budget: what was declared, or measured if that is more."""
        return self.slot_state.weigh(self.serve, self.measured)

    @property
    def oldest(self) -> float:
        """Arrival of the oldest waiter; infinity if none waits."""
        return next(iter(self.queue.values())).since if self.queue else float("inf")

    def end_leases(self, ids: Iterable[int]) -> tuple[int, ...]:
        """These leases of it end."""
        ended = tuple(ids)
        for id in ended:
            self.active -= self.leases.pop(id)
        self.yielding.difference_update(ended)
        return ended

    def must_stop(self) -> bool:
        """Whether something besides a waiting request asks for its stop."""
        return bool(self.unloads or self.removed or self.pending or self.parked)

    def is_used(self) -> bool:
        """Whether somebody holds it or waits for it, who need not give way."""
        return bool(self.queue) or len(self.leases) > len(self.yielding)

    def has_place(self) -> bool:
        return self.active < self.serve.max_active


@dataclass(slots=True, eq=False)
class Swap:
    """One decided change of residents; `generation` tells its results from older ones."""

    generation: int
    kind: SwapKind
    target: ServeState | None
    victims: tuple[ServeState, ...]
    decided_at: float
    drain_deadline: float
    run_at: float | None = None
    """When the drain ended and StartSwap went out."""
    cancelled: bool = False
    check_started: bool = False
    """Whether the caller was told to look while the victims drain."""
    reason: str = ""
    """Why streams are cut for it, where that is not the end of a drain."""


@dataclass(slots=True, eq=False)
class SlotState:
    """One slot at run time."""

    slot: Slot
    serves: list[ServeState] = field(default_factory=list)
    swaps: dict[int, Swap] = field(default_factory=dict)
    swaps_made: int = 0

    @property
    def budget(self) -> int:
        return 1 if self.slot.memory is None else self.slot.memory

    def weigh(self, serve: Serve, measured: int | None = None) -> int:
        return 1 if self.slot.memory is None else max(serve.memory or 0, measured or 0)

    @property
    def used(self) -> int:
        """What residents hold, plus what decided targets will; a victim counts until it is gone."""
        return sum(seat.weight for seat in self.serves if seat.phase is not ServePhase.STOPPED)

    def is_quiet(self) -> bool:
        """No swap under way and nobody waiting."""
        return not self.swaps and not any(seat.queue for seat in self.serves)

    def is_clearing(self) -> bool:
        """Whether somebody is being moved out for a target."""
        return any(swap.victims and swap.target for swap in self.swaps.values())
