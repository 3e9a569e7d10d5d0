"""The virtual clock: what a policy wants happens at once or after the time that it takes; what is impossible raises."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from bench.schedule.fleet import EngineReplica
from bench.schedule.traces import Trace, TraceRequest


class ServeRequest(NamedTuple):
    """The request runs from now on, in this slot."""

    id: int
    slot: int


class LoadServe(NamedTuple):
    """Stop what the slot holds (no request may run there) and load this serve; None: only stop."""

    slot: int
    serve: str | None


class CancelLoad(NamedTuple):
    """Give the load up: the slot is empty."""

    slot: int


class EndRequests(NamedTuple):
    """Running requests are cut."""

    ids: tuple[int, ...]


class RefuseRequest(NamedTuple):
    id: int


class WakePolicy(NamedTuple):
    """Ask again at this time, and no longer at the one before; None: not at all."""

    at: float | None


Action = ServeRequest | LoadServe | CancelLoad | EndRequests | RefuseRequest | WakePolicy


class FleetView(Protocol):
    """What a policy may look at beside what it is asked."""

    def count_missing(self, slot: int, request: TraceRequest) -> int:
        """Tokens of its prompt that the slot's engine would have to read."""
        ...

    def observed(self, id: int) -> tuple[int, float]:
        """Of a request that was served: tokens of its prompt that were cached, and seconds to the first token."""
        ...


class Policy(Protocol):
    """Decides what runs where. A request is known by its position in the trace."""

    def arrive(self, id: int, request: TraceRequest, now: float) -> Iterable[Action]: ...

    def end(self, id: int, now: float) -> Iterable[Action]:
        """A request that ran has ended."""
        ...

    def finish_load(self, slot: int, now: float, is_cancelled: bool) -> Iterable[Action]: ...

    def wake(self, now: float) -> Iterable[Action]: ...


class ImpossibleAction(Exception):
    """A bug in a policy: it asks for what no machine can do."""


@dataclass(slots=True)
class RequestResult:
    """What became of a request. Times are seconds on the virtual clock; None: that never happened."""

    arrived: float
    started: float | None = None
    ended: float | None = None
    cached: int = 0
    reading: float = 0.0
    """Seconds from the start of service to the first token."""
    is_cut: bool = False
    is_refused: bool = False


@dataclass(slots=True)
class SimulationResult:
    requests: dict[int, RequestResult] = field(default_factory=dict)
    loads: int = 0
    """How many serves were loaded."""


class Simulation:
    """One run of one policy over one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.result = SimulationResult()
        self._now = 0.0
        self._slots: list[EngineReplica | None] = [None] * trace.slots
        self._loading: dict[int, tuple[int, str | None]] = {}
        self._running: dict[int, int] = {}
        self._events: list[tuple[float, int, str, int, int]] = []
        self._order = count()
        self._wake = 0
        self._followers: dict[int, list[int]] = defaultdict(list)

    def count_missing(self, slot: int, request: TraceRequest) -> int:
        replica = self._slots[slot]
        if replica is None or replica.serve != request.serve:
            return request.input_tokens
        return request.input_tokens - replica.count_cached(request)

    def observed(self, id: int) -> tuple[int, float]:
        one = self.result.requests[id]
        return one.cached, one.reading

    def run(self, policy: Policy) -> SimulationResult:
        """Raises ImpossibleAction; also if requests are left and nothing will ever happen."""
        for id, request in enumerate(self.trace.requests):
            if request.after is None:
                self._push(request.at, "arrive", id)
            else:
                self._followers[request.after].append(id)
        while self._events:
            self._now, _, kind, subject, version = heapq.heappop(self._events)
            self._do(self._happen(policy, kind, subject, version))
        left = [id for id, one in self.result.requests.items() if one.ended is None and not one.is_refused]
        if left:
            raise ImpossibleAction(f"{len(left)} requests wait for ever, the first is {left[0]}")
        return self.result

    def _push(self, at: float, kind: str, subject: int, version: int = 0) -> None:
        heapq.heappush(self._events, (at, next(self._order), kind, subject, version))

    def _happen(self, policy: Policy, kind: str, subject: int, version: int) -> Iterable[Action]:
        if kind == "arrive":
            self.result.requests[subject] = RequestResult(self._now)
            return policy.arrive(subject, self.trace.requests[subject], self._now)
        if kind == "end" and subject in self._running:
            self._leave(subject)
            return policy.end(subject, self._now)
        if kind in ("loaded", "cancelled") and self._loading.get(subject, (-1, None))[0] == version:
            serve = self._loading.pop(subject)[1]
            is_cancelled = kind == "cancelled"
            self._slots[subject] = (
                None if is_cancelled or serve is None else EngineReplica(serve, self.trace.cached_tokens)
            )
            return policy.finish_load(subject, self._now, is_cancelled)
        if kind == "wake" and version == self._wake:
            return policy.wake(self._now)
        return ()

    def _leave(self, id: int) -> None:
        replica = self._slots[self._running.pop(id)]
        assert replica is not None
        replica.running.discard(id)
        self.result.requests[id].ended = self._now
        self._follow(id)

    def _follow(self, id: int) -> None:
        for follower in self._followers[id]:
            self._push(self._now + self.trace.requests[follower].at, "arrive", follower)

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case ServeRequest(id, slot):
                    self._serve(id, slot)
                case LoadServe(slot, serve):
                    self._load(slot, serve)
                case CancelLoad(slot):
                    if slot in self._loading:
                        self._push(self._now, "cancelled", slot, self._loading[slot][0])
                case EndRequests(ids):
                    for id in ids:
                        self.result.requests[id].is_cut = True
                        self._leave(id)
                case RefuseRequest(id):
                    self.result.requests[id].is_refused = True
                    self._follow(id)
                case WakePolicy(at):
                    self._wake += 1
                    if at is not None:
                        self._push(max(at, self._now), "wake", 0, self._wake)

    def _serve(self, id: int, slot: int) -> None:
        replica, request, result = self._slots[slot], self.trace.requests[id], self.result.requests[id]
        if replica is None or slot in self._loading or replica.serve != request.serve:
            raise ImpossibleAction(f"request {id} is served in slot {slot}, where {request.serve} is not loaded")
        if len(replica.running) >= self.trace.places or result.started is not None:
            raise ImpossibleAction(f"request {id} is served twice, or there is no place in slot {slot}")
        ends, result.cached, result.reading = replica.start(id, request, self._now)
        result.started = self._now
        self._running[id] = slot
        self._push(ends, "end", id)

    def _load(self, slot: int, serve: str | None) -> None:
        replica = self._slots[slot]
        if slot in self._loading or (replica is not None and replica.running):
            raise ImpossibleAction(f"slot {slot} is in use")
        self._slots[slot] = None
        version = next(self._order)
        self._loading[slot] = version, serve
        self.result.loads += serve is not None
        self._push(self._now + (self.trace.swap_times[serve] if serve else 0.0), "loaded", slot, version)
