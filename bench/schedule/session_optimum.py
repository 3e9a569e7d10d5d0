"""The least sum of completion times of a few sessions that anybody could reach who loads a model only when it is asked
for, but knows all gaps and durations: A* over what each slot holds and how far each session is.

Choices, all at times at which something happens: a slot in which nothing runs loads a serve that somebody waits for, or
stays; a loaded serve takes all that wait for it, or, while it is busy, nobody any more: it is to be empty soon.

Estimate: each session goes on alone from where it is, and waits at least until its serve could be loaded.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from random import Random
from typing import NamedTuple

from bench.schedule.agentx import draw_gap
from bench.schedule.optimum import OptimalWaiting
from bench.schedule.traces import Trace, TraceRequest

NO_SERVE = -1
INFINITY = float("inf")


class SmallSession(NamedTuple):
    serve: int
    gaps: tuple[float, ...]
    """Before each turn; the first is when it begins."""
    durations: tuple[float, ...]


class SessionInstance(NamedTuple):
    slots: int
    swap_times: tuple[float, ...]
    sessions: tuple[SmallSession, ...]


class _Progress(NamedTuple):
    """Of a session: it thinks or runs until `at`, or has waited since then."""

    turn: int
    phase: int
    at: float


THINKS, WAITS, RUNS, DONE = range(4)


class _Slot(NamedTuple):
    serve: int
    ready: float
    is_closed: bool


class _Node(NamedTuple):
    now: float
    slots: tuple[_Slot, ...]
    sessions: tuple[_Progress, ...]


def session_instance(seed: int) -> SessionInstance:
    """One or two slots, one or two serves more than that, three to five sessions of three to seven turns."""
    random = Random(seed)
    slots = random.choice((1, 1, 2))
    serves = slots + random.choice((1, 1, 2))
    sessions = []
    for number in range(random.randint(3, 5)):
        turns = random.randint(3, 7)
        gaps = [round(random.uniform(0.0, 20.0), 1), *(min(draw_gap(random).seconds, 60.0) for _ in range(turns - 1))]
        durations = [round(random.uniform(0.5, 5.0), 1) for _ in range(turns)]
        serve = number % serves if number < serves else random.randrange(serves)
        sessions.append(SmallSession(serve, tuple(gaps), tuple(durations)))
    times = tuple(float(random.randint(3, 20)) for _ in range(serves))
    return SessionInstance(slots, times, tuple(sessions))


def session_trace(instance: SessionInstance) -> Trace:
    """The same for policies."""
    requests: list[TraceRequest] = []
    for number, session in enumerate(instance.sessions):
        for turn, (gap, seconds) in enumerate(zip(session.gaps, session.durations, strict=True)):
            following = session.gaps[turn + 1 : turn + 2]
            requests.append(TraceRequest(
                gap, f"m{session.serve}", key=f"s{number}", after=len(requests) - 1 if turn else None,
                seconds=seconds, session=f"s{number}", is_call=bool(following and following[0] <= 10.0),
            ))  # fmt: skip
    times = {f"m{serve}": seconds for serve, seconds in enumerate(instance.swap_times)}
    return Trace("sessions", instance.slots, times, requests, 1000)


def least_completion(instance: SessionInstance, limit: int = 30_000) -> OptimalWaiting:
    """`limit`: how many states are looked at before the best bound found so far is the answer."""
    search = _Search(instance)
    order = count()
    start = _Node(0.0, (_Slot(NO_SERVE, 0.0, False),) * instance.slots,
                  tuple(_Progress(0, THINKS, one.gaps[0]) for one in instance.sessions))  # fmt: skip
    frontier = [(search.estimate(start), 0.0, next(order), start)]
    seen = {start}
    total = frontier[0][0]
    begun = sum(one.gaps[0] for one in instance.sessions)
    for _ in range(limit):
        total, _, _, node = heapq.heappop(frontier)
        if all(one.phase == DONE for one in node.sessions):
            return OptimalWaiting(total - begun, True)
        for following in search.follow(node):
            if following not in seen:
                seen.add(following)
                heapq.heappush(frontier, (search.estimate(following), -following.now, next(order), following))
    return OptimalWaiting(min(total, frontier[0][0]) - begun if frontier else total - begun, False)


class _Search:
    def __init__(self, instance: SessionInstance) -> None:
        self._instance = instance
        self._left = [
            [sum(one.durations[turn:]) + sum(one.gaps[turn + 1 :]) for turn in range(len(one.durations) + 1)]
            for one in instance.sessions
        ]
        """By session and turn: what is left from that turn's start of service on, when it is alone."""

    def estimate(self, node: _Node) -> float:
        """The least sum of the times at which sessions end."""
        free = min(max(slot.ready, self._busy(node, slot), node.now) for slot in node.slots)
        loaded = {slot.serve: slot for slot in node.slots if not slot.is_closed}
        total = 0.0
        for number, one in enumerate(node.sessions):
            if one.phase == DONE:
                total += one.at
            elif one.phase == RUNS:
                left = self._left[number]
                total += one.at + left[one.turn] - self._instance.sessions[number].durations[one.turn]
            else:
                serve = self._instance.sessions[number].serve
                slot = loaded.get(serve)
                earliest = slot.ready if slot is not None else free + self._instance.swap_times[serve]
                total += max(one.at if one.phase == THINKS else node.now, earliest) + self._left[number][one.turn]
        return total

    def _busy(self, node: _Node, slot: _Slot) -> float:
        """Until when requests run there."""
        sessions = self._instance.sessions
        return max([p.at for n, p in enumerate(node.sessions) if p.phase == RUNS and sessions[n].serve == slot.serve],
                   default=0.0)  # fmt: skip

    def follow(self, node: _Node) -> Iterator[_Node]:
        waiting = {self._instance.sessions[n].serve for n, one in enumerate(node.sessions) if one.phase == WAITS}
        for slots in self._plans(node, waiting):
            yield self._advance(node, slots)

    def _plans(self, node: _Node, waiting: set[int]) -> Iterator[tuple[_Slot, ...]]:
        partial: list[list[_Slot]] = [[]]
        here = {slot.serve for slot in node.slots}
        for slot in node.slots:
            is_loading = slot.ready > node.now
            busy = self._busy(node, slot) > node.now
            choices = [slot] if not slot.is_closed or busy or is_loading else []
            if not is_loading and not busy:
                choices += [_Slot(serve, node.now + self._instance.swap_times[serve], False)
                            for serve in waiting if serve not in here]  # fmt: skip
                if slot.is_closed:
                    choices.append(slot)
            elif busy and not slot.is_closed and waiting - here:
                choices.append(slot._replace(is_closed=True))
            partial = [[*before, choice] for before in partial for choice in choices]
        for plan in {tuple(sorted(one)) for one in partial}:
            serves = [slot.serve for slot in plan if slot.serve != NO_SERVE]
            if len(serves) == len(set(serves)):
                yield plan

    def _advance(self, node: _Node, slots: tuple[_Slot, ...]) -> _Node:
        """Who waits for a loaded serve runs; then the next thing happens."""
        instance, now = self._instance, node.now
        open_at = {slot.serve for slot in slots if slot.ready <= now and not slot.is_closed}
        sessions = [
            _Progress(p.turn, RUNS, round(now + instance.sessions[n].durations[p.turn], 3))
            if p.phase == WAITS and instance.sessions[n].serve in open_at else p
            for n, p in enumerate(node.sessions)
        ]  # fmt: skip
        times = [p.at for p in sessions if p.phase in (THINKS, RUNS)] + [s.ready for s in slots if s.ready > now]
        at = min(times, default=now + 1e6)
        for n, p in enumerate(sessions):
            if p.at > at or p.phase in (WAITS, DONE):
                continue
            if p.phase == THINKS:
                sessions[n] = _Progress(p.turn, WAITS, p.at)
            elif p.turn + 1 == len(instance.sessions[n].durations):
                sessions[n] = _Progress(p.turn, DONE, p.at)
            else:
                sessions[n] = _Progress(p.turn + 1, THINKS, round(p.at + instance.sessions[n].gaps[p.turn + 1], 3))
        return _Node(at, slots, tuple(sessions))
