"""Stoker's own scheduler as a policy: driven by its events and commands, as the conductor does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bench.schedule.simulation import (
    Action,
    CancelLoad,
    EndRequests,
    FleetView,
    LoadServe,
    RefuseRequest,
    ServeRequest,
    WakePolicy,
)
from bench.schedule.traces import BLOCK, Trace, TraceRequest
from stoker.domain.lease import FairShare
from stoker.domain.serve import Serve, Slot, SwapPolicy
from stoker.domain.session import Session
from stoker.domain.usage import ServeUsage
from stoker.request.lease.commands import CancelSwap, Command, Cut, Grant, Reassign, Reject, StartSwap, WakeAt
from stoker.request.lease.fair_queue import BYTES_PER_TOKEN
from stoker.request.lease.places import choose_replica
from stoker.request.lease.scheduler import Scheduler

FOREVER = 1e9
"""Seconds that a request waits, and requests that a queue holds: a refusal would spare a policy the wait."""


class StokerPolicy:
    """The defaults of a configuration, but nobody is refused for waiting too long or for a full queue."""

    def __init__(self, trace: Trace, fleet: FleetView, replicas: int = 1, is_protected: bool = True,
        max_wait: float | None = None,
    ) -> None:  # fmt: skip
        """`is_protected`: residents have their residency and linger, both auto; else neither."""
        least = None if is_protected else 0.0
        swap = SwapPolicy(min_residency=least, linger=least, max_wait=max_wait, swap_timeout=FOREVER)
        slots = [Slot(f"gpu{n}", swap=swap) for n in range(trace.slots)]
        serves = [_replica(trace, name, slot, replicas) for name in trace.swap_times for slot in slots]
        self._scheduler = Scheduler(slots, serves)
        self._fleet = fleet
        self._requests = trace.requests
        self._sessions: dict[str, Session] = {}
        self._slot_of = {serve.name: int((serve.slot or "gpu0")[3:]) for serve in serves}
        self._replica_of: dict[int, str] = {}
        self._swaps: dict[int, int] = {}
        """By slot: the swap that is under way in it."""

    def arrive(self, id: int, request: TraceRequest, now: float) -> Iterable[Action]:
        name = request.serve
        if name not in self._scheduler.serves:
            states = [s for s in self._scheduler.serves.values() if s.serve.replica_of == request.serve]
            missing = {s.name: self._fleet.count_missing(self._slot_of[s.name], request) for s in states}
            name = choose_replica(states, now, missing).name
        self._replica_of[id] = name
        share = FairShare(request.key, session=self._session(request))
        body = (request.input_tokens or BLOCK) * BYTES_PER_TOKEN
        return self._actions(self._scheduler.on_request(id, name, now, True, share, body), now)

    def _session(self, request: TraceRequest) -> Session | None:
        if not request.session or request.session.startswith("alone"):
            return None
        session = self._sessions.get(request.session)
        if session is None:
            above = self._sessions.get(request.session.partition("/")[0]) if "/" in request.session else None
            session = self._sessions[request.session] = Session(request.session, request.key, parent=above)
        return session

    def end(self, id: int, now: float) -> Iterable[Action]:
        request, state = self._requests[id], self._scheduler.serves[self._replica_of[id]]
        if session := self._session(request):
            cached, read = self._fleet.observed(id)
            usage = ServeUsage(state.name, request.input_tokens, request.output_tokens, cached)
            usage.calls_tool, usage.reading_seconds = request.is_call, read
            state.note_answer(session, usage)
        return self._actions(self._scheduler.on_release(id, self._replica_of.pop(id), now), now)

    def finish_load(self, slot: int, now: float, is_cancelled: bool) -> Iterable[Action]:
        commands = self._scheduler.on_swap_done(self._swaps.pop(slot), now, cancelled=is_cancelled)
        return self._actions(commands, now)

    def wake(self, now: float) -> Iterable[Action]:
        return self._actions(self._scheduler.on_tick(now), now)

    def _actions(self, commands: list[Command], now: float) -> Iterator[Action]:
        for command in commands:
            match command:
                case Grant(id):
                    yield ServeRequest(id, self._slot_of[self._replica_of[id]])
                case Reassign(id, serve):
                    self._replica_of[id] = serve
                case Reject(id, _):
                    yield RefuseRequest(id)
                case Cut(_, leases, _):
                    yield EndRequests(leases)
                case StartSwap(swap_id, target, victims):
                    slot = self._slot_of[target or victims[0]]
                    self._swaps[slot] = swap_id
                    yield LoadServe(slot, target and target.partition("@")[0])
                case CancelSwap(swap_id):
                    yield CancelLoad(next(slot for slot, own in self._swaps.items() if own == swap_id))
                case WakeAt(at):
                    yield WakePolicy(at)


def _replica(trace: Trace, name: str, slot: Slot, replicas: int) -> Serve:
    limits = {"max_active": trace.places, "queue": int(FOREVER), "queue_timeout": FOREVER}
    if trace.slots == 1:
        return Serve(name, slot=slot.name, **limits)  # type: ignore[arg-type]
    own = f"{name}@{slot.name}"
    return Serve(own, slot=slot.name, replica_of=name, replicas=replicas, **limits)  # type: ignore[arg-type]
