"""What others do: first come, first served; llama-swap's rule; replicas that never move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from bench.schedule.simulation import Action, LoadServe, RefuseRequest, ServeRequest
from bench.schedule.traces import Trace, TraceRequest


class BasePolicy:
    """Remembers what waits, what runs where, and what each slot holds. `act` decides, after every event."""

    def __init__(self, trace: Trace) -> None:
        self.places = trace.places
        self.serves = tuple(trace.swap_times)
        self.resident: list[str | None] = [None] * trace.slots
        self.loading: dict[int, str] = {}
        self.running: list[set[int]] = [set() for _ in range(trace.slots)]
        self.waiting: dict[int, str] = {}
        """By request, in order of arrival: its serve."""

    def arrive(self, id: int, request: TraceRequest, now: float) -> Iterable[Action]:
        self.waiting[id] = request.serve
        return list(self.act())

    def end(self, id: int, now: float) -> Iterable[Action]:
        for running in self.running:
            running.discard(id)
        return list(self.act())

    def finish_load(self, slot: int, now: float, is_cancelled: bool) -> Iterable[Action]:
        self.resident[slot] = self.loading.pop(slot)
        return list(self.act())

    def wake(self, now: float) -> Iterable[Action]:
        return ()

    def act(self) -> Iterator[Action]:
        raise NotImplementedError

    def serve(self, id: int, slot: int) -> Action:
        del self.waiting[id]
        self.running[slot].add(id)
        return ServeRequest(id, slot)

    def load(self, slot: int, serve: str) -> Action:
        self.resident[slot] = None
        self.loading[slot] = serve
        return LoadServe(slot, serve)

    def has_place(self, slot: int) -> bool:
        return len(self.running[slot]) < self.places

    def is_idle(self, slot: int) -> bool:
        return slot not in self.loading and not self.running[slot]


class FirstComeFirstServed(BasePolicy):
    """Strictly in order of arrival: nobody overtakes, not even for a model that is loaded."""

    def act(self) -> Iterator[Action]:
        for id, serve in list(self.waiting.items()):
            slots = [slot for slot, resident in enumerate(self.resident) if resident == serve]
            free = [slot for slot in slots if self.has_place(slot)]
            if free:
                yield self.serve(id, free[0])
                continue
            if not slots and serve not in self.loading.values():
                idle = [slot for slot in range(len(self.resident)) if self.is_idle(slot)]
                if idle:
                    yield self.load(min(idle, key=lambda slot: self.resident[slot] is not None), serve)
            return


class LlamaSwap(BasePolicy):
    """A request for what is loaded runs at once. When nothing runs any more, the oldest waiting one's model is loaded,
    and all that wait for it run. One model at a time in each slot; with several slots, each model has a slot of its
    own among them, as its groups are written.
    """

    def act(self) -> Iterator[Action]:
        home = {serve: position % len(self.resident) for position, serve in enumerate(self.serves)}
        for id, serve in list(self.waiting.items()):
            slot = home[serve]
            if self.resident[slot] == serve:
                if self.has_place(slot):
                    yield self.serve(id, slot)
            elif self.is_idle(slot):
                yield self.load(slot, serve)


class LruRouter(BasePolicy):
    """The router of llama.cpp's server: a request for a model that is not loaded at once stops the one whose last
    request came longest ago, whether that is busy or not. Here what runs may end, which the router does not wait for;
    but nothing new runs there.
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._last_used: dict[str, int] = {}
        self._next: dict[int, str] = {}
        """By slot that is being cleared: what is loaded then."""

    def arrive(self, id: int, request: TraceRequest, now: float) -> Iterable[Action]:
        self._last_used.pop(request.serve, None)
        self._last_used[request.serve] = id
        return super().arrive(id, request, now)

    def act(self) -> Iterator[Action]:
        for id, serve in list(self.waiting.items()):
            slot = next((slot for slot, resident in enumerate(self.resident) if resident == serve), None)
            if slot is not None and slot not in self._next:
                if self.has_place(slot):
                    yield self.serve(id, slot)
            elif slot is None and serve not in self.loading.values() and serve not in self._next.values():
                free = [s for s in range(len(self.resident)) if s not in self.loading and s not in self._next]
                if free:
                    self._next[min(free, key=self._recency)] = serve
        for slot, serve in list(self._next.items()):
            if self.is_idle(slot):
                del self._next[slot]
                yield self.load(slot, serve)

    def _recency(self, slot: int) -> int:
        resident = self.resident[slot]
        return -1 if resident is None else list(self._last_used).index(resident)


class OllamaKeepAlive(BasePolicy):
    """Ollama's scheduler: one request after the other finds its model loaded, or waits until one can be stopped for it:
    an idle one if there is one, else the one that was loaded first, once it is idle. All that came later wait behind.
    `keep_alive` (5 minutes) stops what nobody uses; on the way to another model that changes nothing.
    """

    def act(self) -> Iterator[Action]:
        for id, serve in list(self.waiting.items()):
            slot = next((slot for slot, resident in enumerate(self.resident) if resident == serve), None)
            if slot is not None and self.has_place(slot):
                yield self.serve(id, slot)
                continue
            if slot is not None or serve in self.loading.values():
                return
            idle = [slot for slot in range(len(self.resident)) if self.is_idle(slot)]
            if idle:
                yield self.load(min(idle, key=lambda slot: self.resident[slot] is not None), serve)
            return


class FixedReplicas(BasePolicy):
    """Models never move. A slot has one model for good; those that find no slot are refused.

    With `spread`, slots that are left over get further replicas, which take requests in turn, whatever each has to do.
    """

    def __init__(self, trace: Trace, spread: bool = False) -> None:
        super().__init__(trace)
        slots = range(trace.slots if spread else min(trace.slots, len(self.serves)))
        self._homes: dict[str, list[int]] = defaultdict(list)
        for slot in slots:
            self._homes[self.serves[slot % len(self.serves)]].append(slot)
        self._bound: dict[int, int] = {}
        self._turn: dict[str, int] = defaultdict(int)

    def arrive(self, id: int, request: TraceRequest, now: float) -> Iterable[Action]:
        homes = self._homes.get(request.serve)
        if not homes:
            return [RefuseRequest(id)]
        self._bound[id] = homes[self._turn[request.serve] % len(homes)]
        self._turn[request.serve] += 1
        return super().arrive(id, request, now)

    def act(self) -> Iterator[Action]:
        for id, serve in list(self.waiting.items()):
            slot = self._bound[id]
            if self.resident[slot] == serve:
                if self.has_place(slot):
                    yield self.serve(id, slot)
            elif slot not in self.loading:
                yield self.load(slot, serve)
