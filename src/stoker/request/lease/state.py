"""What the scheduler remembers about serves, slots, swaps and waiting requests. Only this package changes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

from stoker.domain.errors import CANNOT_LOAD, LASTING, StartFailed, StokerError, did_not_start
from stoker.domain.key import Priority
from stoker.domain.lease import FairShare, Lease
from stoker.domain.protocols import FileMarks
from stoker.domain.replica_wish import ReplicaWish
from stoker.domain.serve import Driver, Serve, Slot
from stoker.domain.serve_phase import SCHEDULER_EVENTS, ServeEvent, ServePhase, next_phase
from stoker.domain.session import Session
from stoker.domain.usage import ServeUsage
from stoker.request.lease.fair_queue import FairQueue, LearnedCosts, used_tokens
from stoker.request.lease.waiter import Waiter, Want


class CannotLoad(NamedTuple):
    """Why a serve is not worth another start.

    1. a start failed for a reason in LASTING        -> it cannot load, until one of its files changes
    2. a check finds what nobody but a person mends  -> it cannot load, until a check finds nothing
    3. its configuration changes                     -> it may load
    4. an operator switches to it                    -> it may load
    5. Stoker starts anew                            -> it may load: one attempt finds out again

    What only time or other serves decide (memory, a port, a lost device) is no such reason: the serve backs off.
    """

    reason: str
    """With what to do about it."""
    remedy: str = ""
    """The same without what an engine printed."""
    failure: str = ""
    """The code of the start that failed; empty: a check found the reason, and nothing was started."""
    files: FileMarks = ()
    """Its files, as they were before that start."""


def from_failure(name: str, error: StartFailed, files: FileMarks) -> CannotLoad:
    if error.code == CANNOT_LOAD:
        return CannotLoad(error.remedy, error.remedy)
    return CannotLoad(error.message.removeprefix(did_not_start(name)), error.remedy, error.code, files)


def is_lasting(error: StartFailed) -> bool:
    return error.code in LASTING or error.code == CANNOT_LOAD


class SlotTime:
    """The busy time of a slot, divided among the leases that are held at the same time.

    Times are monotonic seconds. Each step takes the same time, however many leases are held.
    """

    __slots__ = ("_at", "_held", "_share")

    def __init__(self) -> None:
        self._held = 0
        self._at = 0.0
        self._share = 0.0
        """What a lease that was held from the start on would have got so far."""

    def enter(self, now: float) -> float:
        """A lease begins. Returns what `leave` wants."""
        if self._held:
            self._share += (now - self._at) / self._held
        else:
            self._share = 0.0  # nobody refers to it, and small numbers stay exact
        self._at = now
        self._held += 1
        return self._share

    def leave(self, now: float, entered: float) -> float:
        """A lease ends. Returns its seconds. The sum over all leases is the time in which any was held."""
        self._share += (now - self._at) / self._held
        self._at = now
        self._held -= 1
        return self._share - entered


GAP_WEIGHT = 0.4
"""Of the latest gap in the average: after four gaps of another length, seven eighths of it are forgotten."""


LEAST_READ = 4096
"""Tokens. What takes less shows nothing about the speed: most of its time is not for reading."""
MOST_OF_SERVE = 256
"""Sessions that are remembered for a serve. The one that asked for it longest ago is forgotten first."""


class UsualGap:
    """For how long a serve is usually unused between two requests: a moving average, in seconds.

    `seconds` is None before the first gap.
    """

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: float | None = None

    def add(self, gap: float) -> None:
        self.seconds = gap if self.seconds is None else self.seconds + GAP_WEIGHT * (gap - self.seconds)


class ReadingSpeed:
    """How fast a serve reads prompts."""

    __slots__ = ("_per_token",)

    def __init__(self) -> None:
        self._per_token = 0.0
        """Seconds; 0: not known yet."""

    def learn(self, usage: ServeUsage) -> None:
        """From the answer to a turn. What was read is the prompt without what was cached."""
        if usage.cached is None or usage.input is None:
            return
        read = usage.input - usage.cached
        if usage.reading_seconds is not None and read >= LEAST_READ:
            each = usage.reading_seconds / read
            self._per_token += (each - self._per_token) * (GAP_WEIGHT if self._per_token else 1.0)

    def seconds(self, tokens: float) -> float:
        """To read so many tokens again."""
        return tokens * self._per_token


class PauseCause(Enum):
    """Why a slot is paused: nothing is loaded there, and what was loaded ends."""

    OPERATOR = "operator"
    """Until `stoker resume`."""
    PROGRAM = "program"
    """Another program needs its devices: until that is gone."""
    SUSPEND = "suspend"
    """The machine is going to sleep. Requests wait instead of being refused: they end the pause."""


NEVER = float("-inf")
HeldPlace = tuple[FairShare, int] | tuple[()]
"""What a lease holds: the share that the place counts for, and the bytes of the request's body; (): no place."""


class SwapKind(Enum):
    """Why a swap was decided."""

    DEMAND = "demand"
    """A request, an operator or a preload wants the target."""
    UNLOAD = "unload"
    """The victims are only stopped: there is no target."""
    RESTORE = "restore"
    """A start failed: a previous resident, or the `fallback`, is started."""
    BASELINE = "baseline"
    """The restored serve failed, too: the slot's `baseline` is started."""
    KEEP = "keep"
    """Fewer replicas of the serve are loaded than are kept, or one of them is needed elsewhere."""


class LoadReason(Enum):
    """For what a serve was loaded. One that has been used counts as loaded for a request."""

    REQUEST = "request"
    """A request or an operator."""
    PRELOAD = "preload"
    """Nobody waited for it: it was loaded at the start, or as soon as it was reachable."""
    IDLE = "idle"
    """It is the slot's `idle_serve`, and the slot was idle; or it is a replica that is kept loaded."""


@dataclass(slots=True, eq=False)
class ServeState:
    """A serve at run time: its phase, its leases, the requests that wait for it, and its history."""

    serve: Serve
    slot_state: SlotState
    """Its slot; if it takes several, the first."""
    phase: ServePhase = ServePhase.STOPPED
    leases: dict[int, HeldPlace] = field(default_factory=dict)
    """By lease id, in the order in which they were granted."""
    active: int = 0
    """How many leases take a place."""
    preemptible: dict[int, Priority | None] = field(default_factory=dict)
    """Ids of leases that are cut as soon as a request of a higher priority needs their place or memory, with their own
    priority; None: any request is more important.
    """
    queue: dict[int, Waiter] = field(default_factory=dict)
    """The waiting requests, in order of arrival."""
    fair_queue: FairQueue | None = None
    """In which order they get places; None: no request has waited since one was granted at once."""
    costs: LearnedCosts = field(default_factory=LearnedCosts)
    """What its requests cost: their keys are charged by it while requests wait."""
    ready_since: float = 0.0
    last_used: float = NEVER
    """When the last lease ended that could not be preempted."""
    gap: UsualGap = field(default_factory=UsualGap)
    """Of its own requests."""
    loaded_for: LoadReason = LoadReason.REQUEST
    """At its last start."""
    swap_times: deque[float] = field(default_factory=lambda: deque(maxlen=5))
    """Its last ones; `note_swap_time` adds one."""
    swap_time: float | None = None
    """The median of these; None: none was measured."""
    failures: int = 0
    """Failed starts in a row."""
    failed_at: float = 0.0
    crashes: int = 0
    """Exits soon after ready, in a row."""
    backoff_until: float = 0.0
    last_error: StokerError | None = None
    is_held: bool = False
    """An operator drained it: it admits no new requests. See `held` in the glossary."""
    wanted: bool = False
    """It is to be loaded although no request waits: kept loaded, preloaded, or to come back."""
    preload_asked_at: float | None = None
    """When the preload was asked for because of which it is `wanted`; None: it is wanted for another reason."""
    exited: bool = False
    """It exited while it was draining or stopping: if its swap is called off, it counts as stopped."""
    pending: Serve | None = None
    """Its changed configuration, applied once it has stopped."""
    removed: bool = False
    parked: str = ""
    """Why it is not started until an operator switches to it; empty: it is not parked."""
    cannot_load: CannotLoad | None = None
    """Why another start would fail, too; None: it may load. Only while it is stopped."""
    is_paused: bool = False
    """A slot of its is paused: it ends, and is not started before the pause is over."""
    is_unloaded: bool = False
    """An operator unloaded it: it is not kept loaded until its serve is asked for again."""
    measured: int | None = None
    """Bytes of the slot that it held when it was last measured; None: not measured since its start."""
    unloads: list[int] = field(default_factory=list)
    """Ids of the unloads (an operator's) that wait for its stop."""
    replica_set: ReplicaSet | None = None
    """All replicas of its serve; None: it has one place."""
    more_slots: tuple[SlotState, ...] = ()
    """The other slots that it takes."""
    number: int = 0
    """In the order of the configuration."""
    sessions: dict[Session, None] = field(default_factory=dict)
    """Those whose last request asked for it; the last one to ask is the last."""
    reading: ReadingSpeed = field(default_factory=ReadingSpeed)
    fit: tuple[SlotGroup, int, Any] | None = None
    """The last answer of `eviction.victims_for`, and for which version of the group."""

    def end(self, lease: Lease, now: float) -> None:
        """A lease ends: give it its seconds of the slot, and learn what it cost."""
        seconds = self.slot_state.time.leave(now, lease.slot_entered)
        usage = lease.usage
        if self.sessions:
            held = self.leases.get(lease.id)
            if held and held[0].session is not None:
                self.note_answer(held[0].session, usage)
        if usage is not None:
            usage.accelerator_seconds = seconds
            if self.fair_queue is not None:
                self._learn_cost(lease.id, usage)

    def _learn_cost(self, id: int, usage: ServeUsage) -> None:
        held, used = self.leases.get(id), used_tokens(usage)
        if held and used is not None:
            share, body_bytes = held
            self.costs.learn(share.key, body_bytes, used)

    def note_answer(self, session: Session, usage: ServeUsage | None) -> None:
        """A turn of a session ended; its lease ends next. None: nothing answered it.

        1. its answer calls a tool                          -> a loop goes on
        2. its prompt is much shorter than the loop's        -> it stands beside the loop: a title, a summary
        3. else                                             -> no loop goes on
        """
        if usage is None:
            session.in_loop = session.has_called = False
            return
        if usage.input is not None:
            self.reading.learn(usage)
        session.has_called = usage.calls_tool
        is_beside = usage.input is not None and usage.input < session.tokens / 2
        if session.in_loop and is_beside and not usage.calls_tool:
            return  # 2
        session.in_loop = usage.calls_tool
        if usage.input is not None:
            session.tokens = usage.input + (usage.output or 0)

    def join_session(self, session: Session) -> None:
        """A request of the session asks for it."""
        session.leave()
        session.loaded, session.serve = self, self.serve.replica_of or self.serve.name
        self.sessions[session] = None

    def open_sessions(self) -> tuple[dict[Session, None], int]:
        """Those of which a request runs here, or waits; and how many such requests have none. Requests that give
        way do not count.
        """
        found: dict[Session, None] = {}
        alone = 0
        for id, held in self.leases.items():
            if held and id not in self.preemptible:
                if held[0].session is None:
                    alone += 1
                else:
                    found[held[0].session] = None
        for waiter in self.queue.values():
            if not waiter.is_background:
                if waiter.share.session is None:
                    alone += waiter.want is Want.REQUEST
                else:
                    found[waiter.share.session] = None
        return found, alone

    def waiting_order(self) -> list[Waiter]:
        """The waiters in the order in which they get places."""
        if self.fair_queue is None:
            self.fair_queue = FairQueue(self.costs)
            for held in self.leases.values():
                if held:
                    share, body_bytes = held
                    self.fair_queue.charge(share, body_bytes)
        return self.fair_queue.order(self.queue.values())

    def charge(self, waiter: Waiter) -> None:
        """A waiter gets its place from another replica: it is the turn of the next key."""
        if self.fair_queue is not None and waiter.takes_place:
            self.fair_queue.charge(waiter.share, waiter.body_bytes)

    @property
    def name(self) -> str:
        return self.serve.name

    @property
    def slot_states(self) -> tuple[SlotState, ...]:
        """All slots that it takes."""
        return (self.slot_state, *self.more_slots)

    @property
    def slot_name(self) -> str:
        """`gpu0`, or `gpu0+gpu1` if it takes both."""
        return "+".join(slot_state.slot.name for slot_state in self.slot_states)

    def size_in(self, slot_state: SlotState) -> int:
        """Its share of a slot's budget: the declared size, or the measured one if that is larger. Where it takes
        several slots, each bears an equal part.
        """
        if slot_state.slot.memory is None:
            return 1
        size = self.serve.memory or 0
        if self.measured is not None and self.measured > size:
            size = self.measured
        return -(-size // (1 + len(self.more_slots))) if self.more_slots else size

    def gives_way(self) -> bool:
        """Whether a background request for it waits, because another request waits for a load in a slot of its."""
        if self.more_slots:
            return any(slot_state.has_foreground_waiting_for_load() for slot_state in self.slot_states)
        return self.slot_state.has_foreground_waiting_for_load()

    def is_quiet(self) -> bool:
        """Whether in its slots no swap is under way and no request waits."""
        if self.more_slots:
            return all(slot_state.is_quiet() for slot_state in self.slot_states)
        return self.slot_state.is_quiet()

    def is_clearing(self) -> bool:
        """Whether in a slot of its a swap that stops residents for a target is under way."""
        if self.more_slots:
            return any(slot_state.is_clearing() for slot_state in self.slot_states)
        return self.slot_state.is_clearing()

    @property
    def oldest(self) -> float:
        """Arrival of the oldest waiter; infinity if none waits."""
        return next(iter(self.queue.values())).since if self.queue else float("inf")

    def foreground(self) -> list[Waiter]:
        """The waiters that may cause a swap at the cost of others, in order of arrival."""
        return [waiter for waiter in self.queue.values() if not waiter.is_background]

    def apply(self, event: ServeEvent) -> None:
        """Raises IllegalEvent."""
        before, self.phase = self.phase, next_phase(self.phase, event, SCHEDULER_EVENTS)
        if self.replica_set is not None:
            self.replica_set.ready += (self.phase is ServePhase.READY) - (before is ServePhase.READY)
        self.join_live()
        if self.phase is ServePhase.STOPPED:
            for slot_state in self.slot_states:
                slot_state.has_stale_live = True
        self.touch()

    def touch(self) -> None:
        """Something has changed that may concern the other replicas of its serve, too, where they are live. See
        `SlotGroup.version`.
        """
        self.slot_state.group.touch()
        if self.replica_set is not None:
            self.replica_set.touch_live()

    def is_live(self) -> bool:
        """Whether it is loaded, waited for, or wanted: there may be something to decide."""
        return bool(self.queue) or self.wanted or self.phase is not ServePhase.STOPPED

    def join_live(self) -> None:
        """From now on it may be live."""
        for slot_state in self.slot_states:
            if self not in slot_state.live:
                slot_state.live[self] = None
                slot_state.has_stale_live = True

    def note_swap_time(self, seconds: float) -> None:
        self.swap_times.append(seconds)
        self.swap_time = median(self.swap_times)

    def end_leases(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Remove these leases, and return their ids."""
        ended = tuple(ids)
        self.slot_state.group.touch()
        for id in ended:
            self.active -= bool(self.leases.pop(id))
        for id in ended:
            self.preemptible.pop(id, None)
        return ended

    def must_stop(self) -> bool:
        """Whether it has to stop, whatever requests wait for."""
        return bool(self.unloads or self.removed or self.pending or self.parked or self.is_paused)

    @property
    def pause_reason(self) -> str:
        """Why the first paused slot of its is paused; empty: none is."""
        return next((slot_state.pause_reason for slot_state in self.slot_states if slot_state.pauses), "")

    @property
    def unused_since(self) -> float:
        """When it became ready or, if that is later, when it was last used."""
        return self.last_used if self.last_used > self.ready_since else self.ready_since

    @property
    def usual_gap(self) -> float | None:
        """For how many seconds its serve is usually unused between two requests; None: unknown."""
        return self.gap.seconds if self.replica_set is None else self.replica_set.gap.seconds

    def note_arrival(self, now: float) -> None:
        """A request for it comes. If nobody used its serve, that gap is over."""
        if self.leases or self.queue:
            return
        if self.replica_set is not None:
            self.replica_set.note_arrival(now)
        elif self.last_used > NEVER:
            self.gap.add(now - self.last_used)
            self.slot_state.group.touch()

    def was_used_since(self, at: float) -> bool:
        """Whether a lease that cannot be preempted ended since then, or is held now."""
        return self.last_used >= at or len(self.leases) > len(self.preemptible)

    def is_unused(self, loaded_for: LoadReason) -> bool:
        """Whether it was loaded for this reason, and nobody has used it yet or waits for it."""
        return self.loaded_for is loaded_for and not self.was_used_since(self.ready_since) and not self.queue

    def load_reason(self) -> LoadReason:
        """For what it would be loaded now. One that comes back keeps its reason until it was used."""
        if self.queue:
            return LoadReason.REQUEST
        if self.preload_asked_at is not None:
            return LoadReason.PRELOAD
        return LoadReason.REQUEST if self.was_used_since(self.ready_since) else self.loaded_for

    def is_used(self) -> bool:
        """Whether a request waits for it, or holds a lease that cannot be preempted."""
        return bool(self.queue) or len(self.leases) > len(self.preemptible)

    def is_used_by_foreground(self) -> bool:
        """As `is_used`, but background requests that only wait do not count."""
        return len(self.leases) > len(self.preemptible) or bool(self.queue and self.foreground())

    def has_place(self) -> bool:
        return self.active < self.serve.max_active

    def takes_requests(self) -> bool:
        """Whether an operator lets it, it can load, and it need not stop."""
        is_allowed = not (self.is_held or self.unloads or self.removed or self.pending or self.parked or self.is_paused)
        return is_allowed and self.cannot_load is None

    def is_only_suspended(self) -> bool:
        """Whether it is paused for nothing but the sleep of the machine, which a request calls off."""
        causes = {cause for slot_state in self.slot_states for cause in slot_state.pauses}
        return causes == {PauseCause.SUSPEND}

    def is_left_alone(self) -> bool:
        """Whether it is not started, however often it is wanted."""
        return bool(self.parked) or self.cannot_load is not None or self.is_paused

    @property
    def is_elsewhere(self) -> bool:
        """Whether something else runs it: Stoker only asks whether it is there."""
        return self.serve.driver is Driver.EXTERNAL

    def counts_as_kept(self) -> bool:
        """Whether it is one of those of which `min_replicas` are kept loaded: it serves requests here."""
        return self.phase is ServePhase.READY and self.takes_requests() and not self.is_elsewhere

    def is_kept(self) -> bool:
        """Whether fewer replicas than are kept loaded would be ready without it."""
        if not self.serve.min_replicas or self.replica_set is None:
            return False
        return self.counts_as_kept() and self.replica_set.spare() <= 0

    def is_extra(self) -> bool:
        """Whether its serve answers without it: another replica is ready."""
        return self.replica_set is not None and self.replica_set.ready > (self.phase is ServePhase.READY)


@dataclass(slots=True, eq=False)
class ReplicaSet:
    """The replicas of a serve with several places, in the order of its `slots`."""

    name: str
    replicas: list[ServeState] = field(default_factory=list)
    ready: int = 0
    """How many of them are ready."""
    gap: UsualGap = field(default_factory=UsualGap)
    """Between times in which any of them was used."""
    seen: int = -1
    """The sum of the versions of its slots' groups when it was last asked whether a waiting request moves; -1: another
    request waits since then.
    """
    look_again_at: float = float("inf")
    """When the first of its failed starts may be tried again."""
    groups: tuple[SlotGroup, ...] = ()
    """Those of its slots."""
    no_extra: tuple[int, float, float] = (-1, 0.0, 0.0)
    """That no further replica starts was found at which `decided_version`; until when that holds, if nothing changes
    there; and when to ask again.
    """

    def touch_live(self) -> None:
        """Its live replicas may have to be decided anew. About the places of the others only their slots decide, unless
        replicas are kept loaded there: whether those may stop depends on other slots.
        """
        for state in self.replicas:
            group = state.slot_state.group
            if state.queue or state.wanted or state.phase is not ServePhase.STOPPED or group.keeps_replicas:
                group.touch()

    def has_changed(self, now: float) -> bool:
        """Whether something has happened in one of its slots since this was last asked."""
        version = sum(map(_version, self.groups))
        if version == self.seen and now < self.look_again_at:
            return False
        self.seen, self.look_again_at = version, self.next_retry(now)
        return True

    def next_retry(self, now: float) -> float:
        """When the first of its failed starts may be tried again."""
        at = float("inf")
        for state in self.replicas:
            if now < state.backoff_until < at:
                at = state.backoff_until
        return at

    def decided_version(self) -> int:
        """Raised by whatever happens or is decided in one of its slots."""
        return sum(map(_version, self.groups)) + sum(map(_arrivals, self.groups))

    def note_arrival(self, now: float) -> None:
        """A request for the serve comes. If none of its replicas was used, that gap is over."""
        last_used = NEVER
        for state in self.replicas:
            if state.leases or state.queue:
                return
            last_used = max(last_used, state.last_used)
        if last_used > NEVER:
            self.gap.add(now - last_used)
            self.touch_live()

    def closed_to(self, wish: ReplicaWish) -> frozenset[str]:
        """The names of those that a request may not join: they failed it. One that was forwarded stays here."""
        if not wish.is_forwarded:
            return wish.avoid
        return wish.avoid | {s.name for s in self.replicas if s.is_elsewhere or s.serve.box_place is not None}

    def is_complete(self) -> bool:
        """Whether as many have a process here as may be loaded at the same time. One that drains or stops counts; one
        that an operator holds, or whose slot is paused, does not: another one takes its requests.
        """
        loaded, most = 0, 0
        for state in self.replicas:
            if not state.is_elsewhere:
                loaded += state.phase is not ServePhase.STOPPED and not (state.is_held or state.is_paused)
                most = max(most, state.serve.replicas)
        return loaded >= (most or 1)

    def spare(self, gone: Collection[ServeState] = ()) -> int:
        """How many beside `gone` could stop while as many stay ready as are kept loaded. Below 0: so many lack."""
        least = max((state.serve.min_replicas for state in self.replicas), default=0)
        return sum(state.counts_as_kept() and state not in gone for state in self.replicas) - least

    def is_short(self) -> bool:
        """Whether more requests wait for its replicas that are ready or start than start on this machine."""
        waiting = starting = 0
        for state in self.replicas:
            if state.phase is ServePhase.READY:
                waiting += len(state.queue)
            elif state.phase is ServePhase.STARTING:
                waiting += len(state.queue)
                starting += state.serve.box_place is None
        return waiting > starting

    def starting(self) -> int:
        """How many start here."""
        return sum(state.phase is ServePhase.STARTING and not state.is_elsewhere for state in self.replicas)


@dataclass(slots=True, eq=False)
class Swap:
    """A decided change of residents. `swap_id` numbers it, so that late results of older swaps are ignored."""

    swap_id: int
    kind: SwapKind
    target: ServeState | None
    victims: tuple[ServeState, ...]
    slots: tuple[SlotState, ...]
    """Where it stands: in the slots of its target; of an unload, in those of its victim."""
    decided_at: float
    drain_deadline: float
    run_at: float | None = None
    """When the drain ended and StartSwap went out."""
    cancelled: bool = False
    check_started: bool = False
    reason: str = ""
    """Why streams are cut; empty: because the drain timeout has passed."""
    key: str = ""
    """The key whose request caused it; empty: none did."""


@dataclass(slots=True, eq=False)
class SlotGroup:
    """Slots that serves take together, directly or by way of other slots, so they are decided together; most are alone.

    As long as nothing changes here, and its time does not come, a new decision would be the same: it is left out.
    """

    slots: tuple[SlotState, ...] = ()
    number: int = 0
    """In the order of the configuration."""
    due: dict[SlotGroup, None] = field(default_factory=dict)
    """Of all groups (all share it) those in which something has changed since they were decided."""
    keeps_replicas: bool = False
    """Whether replicas of a serve that has a place here are kept loaded."""
    version: int = 0
    """Raised by every change of what is decided here, or of a live replica of a serve that has a live one here; but for
    arrivals.
    """
    arrivals: int = 0
    """How many requests came to wait for a load. That concerns nothing that is loaded."""
    times: list[float] = field(default_factory=list)
    """When the decision can change without an event."""
    wake: float = float("inf")
    """The first of these, and of the deadlines of those that wait here."""

    def touch(self) -> None:
        """Something has changed that is decided here."""
        self.version += 1
        self.due[self] = None

    def note_arrival(self) -> None:
        """A request waits for a load."""
        self.arrivals += 1
        self.due[self] = None


@dataclass(slots=True, eq=False)
class SlotState:
    """A slot at run time. Sizes are bytes. In a slot without `memory` each serve's size is 1, and the budget is how
    many serves may be loaded at the same time.
    """

    slot: Slot
    serves: list[ServeState] = field(default_factory=list)
    live: dict[ServeState, None] = field(default_factory=dict)
    """At least all serves that are live: few of hundreds, so that a decision need not look at all."""
    has_stale_live: bool = False
    """One has joined them or has stopped since `clean_live`."""
    swaps: dict[int, Swap] = field(default_factory=dict)
    swaps_made: int = 0
    pauses: dict[PauseCause, str] = field(default_factory=dict)
    """Why it is paused, by cause; empty: it is not."""
    has_left_idle_serve: bool = False
    """Another serve was started in place of the slot's `idle_serve`, to which the slot returns once that serve was used
    and is idle. An operator's switch or unload cancels that.
    """
    time: SlotTime = field(default_factory=SlotTime)
    """Its busy time, divided among leases."""
    group: SlotGroup = field(default_factory=SlotGroup)
    has_evict_costs: bool | None = None
    """Whether one of its serves has an `evict_cost`. None, here and below: nobody has asked since the configuration
    changed.
    """
    has_kept_serves: bool | None = None
    """Whether one of its serves, or a replica of it, is kept loaded."""
    longest_swaps: float | None = None
    """Seconds that draining, stopping and starting each of its serves can take, one after the other."""

    def clean_live(self) -> None:
        """Forget the serves that are not live any more, and put the others into the order of the configuration."""
        live = [state for state in self.live if state.is_live()]
        live.sort(key=_number)
        self.live = dict.fromkeys(live)
        self.has_stale_live = False

    @property
    def pause_reason(self) -> str:
        """What an operator said counts first; empty: it is not paused."""
        return next((self.pauses[cause] for cause in PauseCause if self.pauses.get(cause)), "")

    @property
    def budget(self) -> int:
        if self.slot.memory is not None:
            return self.slot.memory
        if self.slot.box:
            return len(self.serves)  # what may be loaded there at the same time, that Stoker decides
        return max(map(len, self.slot.together)) if self.slot.together else 1

    @property
    def used(self) -> int:
        """The sizes of the residents and of the targets that are starting; a victim counts until it is gone."""
        total = 0
        for state in self.live:
            if state.phase is not ServePhase.STOPPED:
                total += state.size_in(self)
        return total

    def sizes(self, states: Iterable[ServeState]) -> int:
        """What these take of the budget."""
        total = 0
        for state in states:
            total += state.size_in(self)
        return total

    def has_foreground_waiting_for_load(self) -> bool:
        """Whether a request that is no background request waits for a serve that is not ready."""
        for state in self.live:
            if state.queue and state.phase is not ServePhase.READY:
                for waiter in state.queue.values():
                    if not waiter.is_background:
                        return True
        return False

    def is_quiet(self) -> bool:
        """Whether no swap is under way and no request waits."""
        if self.swaps:
            return False
        for state in self.live:  # noqa: SIM110 - hot: a generator costs more than what it looks at
            if state.queue:
                return False
        return True

    def is_clearing(self) -> bool:
        """Whether a swap that stops residents for a target is under way, its drain included."""
        return bool(self.swaps) and any(swap.victims and swap.target for swap in self.swaps.values())


_number = attrgetter("number")
_version: Callable[[SlotGroup], int] = attrgetter("version")
_arrivals: Callable[[SlotGroup], int] = attrgetter("arrivals")
