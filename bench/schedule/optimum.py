"""The least sum of waiting that anybody who knew all arrivals could reach: A* over residents, loads and queues.

An instance: all slots alike, a serve is in one slot at a time, its requests all take equally long, and a loaded serve
runs as many as there are. Then nothing but the swaps makes anybody wait, and three choices are left, all at times at
which something happens (a schedule that acts between two of them can act at the first one as well):

1. a slot in which nothing runs loads another serve, or stays
2. a loaded serve takes all that wait for it (as they end together, one that it left out could have been taken, too)
3. or, while it is busy, it takes nobody any more: the slot is to be empty soon

Estimate of what is still to come: of each serve, its requests wait at least until it could be loaded next.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, permutations
from typing import NamedTuple

NO_SERVE = -1
INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class ScheduleInstance:
    """Serves are numbers. Times are seconds."""

    slots: int
    swap_times: tuple[float, ...]
    durations: tuple[float, ...]
    """How long a request of each serve is served."""
    arrivals: tuple[tuple[float, int], ...]
    """Time and serve, in order of time."""
    starts_loaded: bool = False
    """Whether any serves may be loaded at the start: what was before the first request is unknown."""
    may_prefetch: bool = True
    """Whether a serve may be loaded before anybody asks for it, as only somebody who knows the future would."""


class OptimalWaiting(NamedTuple):
    seconds: float
    """The sum over all requests; a lower bound if the search was given up."""
    is_exact: bool


class _SlotPlan(NamedTuple):
    """`ready`: when its load ends; `busy`: when its last request ends. Both 0 if that is over."""

    serve: int
    ready: float
    busy: float
    is_closed: bool


class _Node(NamedTuple):
    now: float
    arrived: int
    waiting: tuple[int, ...]
    slots: tuple[_SlotPlan, ...]


_EMPTY = _SlotPlan(NO_SERVE, 0.0, 0.0, False)


def least_waiting(instance: ScheduleInstance, limit: int = 50_000) -> OptimalWaiting:
    """`limit`: how many states are looked at before the best bound found so far is the answer."""
    if not instance.arrivals:
        return OptimalWaiting(0.0, True)
    search = _Search(instance)
    order = count()
    frontier: list[tuple[float, int, int, float, _Node]] = []
    best: dict[_Node, float] = {}

    def push(cost: float, node: _Node) -> None:
        if cost < best.get(node, INFINITY) - 1e-9:
            best[node] = cost
            heapq.heappush(frontier, (cost + search.estimate(node), -node.arrived, next(order), cost, node))

    for node in search.starts():
        push(0.0, node)
    for _ in range(limit):
        total, _, _, cost, node = heapq.heappop(frontier)
        if cost > best[node] + 1e-9:
            continue
        if node.arrived == len(instance.arrivals) and not any(node.waiting):
            return OptimalWaiting(cost, True)
        for step_cost, following in search.follow(node):
            push(cost + step_cost, following)
    return OptimalWaiting(min(total, frontier[0][0]) if frontier else total, False)


def windowed_bound(instance: ScheduleInstance, size: int = 14, limit: int = 20_000) -> float:
    """A lower bound for a long trace: each window of requests alone, on a fleet that is idle and loaded at will."""
    total = 0.0
    for first in range(0, len(instance.arrivals), size):
        part = instance.arrivals[first : first + size]
        window = ScheduleInstance(instance.slots, instance.swap_times, instance.durations, part, starts_loaded=True)
        total += least_waiting(window, limit).seconds
    return total


class _Search:
    def __init__(self, instance: ScheduleInstance) -> None:
        self.instance = instance
        self.serves = range(len(instance.swap_times))
        self.times: list[list[float]] = [[at for at, s in instance.arrivals if s == serve] for serve in self.serves]
        counted = [0] * len(self.serves)
        self.counts = [tuple(counted)]
        """After so many arrivals: how many of each serve there were."""
        for _, serve in instance.arrivals:
            counted[serve] += 1
            self.counts.append(tuple(counted))

    def starts(self) -> Iterator[_Node]:
        instance = self.instance
        waiting = (0,) * len(self.serves)
        if not instance.starts_loaded:
            yield _Node(0.0, 0, waiting, (_EMPTY,) * instance.slots)
            return
        used = [serve for serve in self.serves if self.times[serve]]
        for chosen in {tuple(sorted(p)) for p in permutations(used, min(instance.slots, len(used)))}:
            slots = [_SlotPlan(serve, 0.0, 0.0, False) for serve in chosen]
            slots += [_EMPTY] * (instance.slots - len(slots))
            yield _Node(instance.arrivals[0][0], 0, waiting, tuple(sorted(slots)))

    def estimate(self, node: _Node) -> float:
        free = min(max(slot.ready, slot.busy, node.now) for slot in node.slots)
        loaded = {slot.serve: slot for slot in node.slots}
        total = 0.0
        for serve in self.serves:
            slot = loaded.get(serve)
            earliest = slot.ready if slot is not None and not slot.is_closed else free + self.instance.swap_times[serve]
            total += node.waiting[serve] * max(0.0, earliest - node.now)
            for at in self.times[serve][self.counts[node.arrived][serve] :]:
                if at >= earliest:
                    break
                total += earliest - at
        return total

    def follow(self, node: _Node) -> Iterator[tuple[float, _Node]]:
        """What may be decided now, and the next time at which something happens after that, with its cost."""
        arrivals, now = self.instance.arrivals, node.now
        arrived, counts = node.arrived, list(node.waiting)
        while arrived < len(arrivals) and arrivals[arrived][0] <= now:
            counts[arrivals[arrived][1]] += 1
            arrived += 1
        for loaded in self._load(node.slots, now, arrived, counts):
            for slots, waiting in self._take(loaded, tuple(counts), now):
                times = [at for slot in slots for at in (slot.ready, slot.busy) if at > now]
                if arrived < len(arrivals):
                    times.append(arrivals[arrived][0])
                if not times:
                    if not any(waiting):
                        yield 0.0, _Node(now, arrived, waiting, ())
                    continue
                at = min(times)
                plans = tuple(sorted(_pass(slot, at) for slot in slots))
                yield sum(waiting) * (at - now), _Node(at, arrived, waiting, plans)

    def _load(
        self, slots: Sequence[_SlotPlan], now: float, arrived: int, waiting: Sequence[int]
    ) -> Iterator[tuple[_SlotPlan, ...]]:
        """1: each idle slot stays as it is or loads a serve that is still needed and is nowhere."""
        needed = [s for s in self.serves if waiting[s]]
        if self.instance.may_prefetch:
            needed = [s for s in self.serves if waiting[s] or len(self.times[s]) > self.counts[arrived][s]]
        partial: list[list[_SlotPlan]] = [[]]
        for position, slot in enumerate(slots):
            grown: list[list[_SlotPlan]] = []
            for before in partial:
                elsewhere = {one.serve for one in before} | {one.serve for one in slots[position:]}
                if not (slot.is_closed and not slot.busy):
                    grown.append([*before, slot])
                if not slot.ready and not slot.busy:
                    for serve in needed:
                        if serve not in elsewhere:
                            plan = _SlotPlan(serve, now + self.instance.swap_times[serve], 0.0, False)
                            grown.append([*before, plan])
                    if slot.is_closed:
                        grown.append([*before, _EMPTY])
            partial = grown
        return iter({tuple(sorted(one)) for one in partial})

    def _take(
        self, slots: tuple[_SlotPlan, ...], waiting: tuple[int, ...], now: float
    ) -> Iterable[tuple[tuple[_SlotPlan, ...], tuple[int, ...]]]:
        """2 and 3: who waits for a loaded serve is taken; or a busy one takes nobody any more."""
        found = [(slots, waiting)]
        for position, slot in enumerate(slots):
            if slot.serve == NO_SERVE or slot.ready or slot.is_closed or not waiting[slot.serve]:
                continue
            taken = slot._replace(busy=now + self.instance.durations[slot.serve])
            closed = slot._replace(is_closed=True)
            grown = []
            for plans, left in found:
                none = (*left[: slot.serve], 0, *left[slot.serve + 1 :])
                grown.append(((*plans[:position], taken, *plans[position + 1 :]), none))
                if slot.busy:
                    grown.append(((*plans[:position], closed, *plans[position + 1 :]), left))
            found = grown
        return found


def _pass(slot: _SlotPlan, now: float) -> _SlotPlan:
    return slot._replace(ready=slot.ready if slot.ready > now else 0.0, busy=slot.busy if slot.busy > now else 0.0)
