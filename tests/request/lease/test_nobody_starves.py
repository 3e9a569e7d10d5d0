"""Whatever others ask and however long they are busy, a request waits for its load no longer than the bound says.

The bound (docs/how-it-works/scheduling.md): `max_wait` + k x (`drain_timeout` + `stop_grace` + start), k other models.
"""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.request.lease.stage import Stage, replicated, serve

MAX_WAIT, DRAIN, START = 4.0, 5.0, 3.0
LIMITS = {"max_active": 1000, "queue": 1000}
SERVES = (
    *replicated("fast", "gpu0 gpu1", 2, min_replicas=1, **LIMITS), *replicated("wide", "gpu0 gpu1 gpu2", **LIMITS),
    *replicated("pair", "gpu0+gpu1 gpu1+gpu2", **LIMITS), serve("huge", slot="gpu0+gpu1+gpu2", **LIMITS),
    serve("a", slot="gpu0", **LIMITS), serve("b", slot="gpu1", **LIMITS), serve("c", slot="gpu2", **LIMITS),
)  # fmt: skip
NAMES = ["fast", "wide", "pair", "huge", "a", "b", "c"]
OTHERS = 6
"""Models that contend with each."""
BOUND = MAX_WAIT + OTHERS * (DRAIN + START)
arrivals = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 2.0, 7.0, 16.0]), st.sampled_from(NAMES),
              st.sampled_from([None, 0.5, 4.0, 30.0])),
    min_size=20, max_size=100,
)  # fmt: skip


class Story:
    """Loads take START; a granted request is served for as long as it says, or until it is cut."""

    def __init__(self, is_protected: bool) -> None:
        """`is_protected`: whether idle models are kept for a while."""
        least = None if is_protected else 0.0
        self.stage = Stage(
            *SERVES, slots="gpu0 gpu1 gpu2", max_wait=MAX_WAIT, drain_timeout=DRAIN, swap_timeout=1000.0,
            min_residency=least, linger=least,
        )  # fmt: skip
        self.since: dict[int, float] = {}
        self.lasts: dict[int, float | None] = {}
        self.ends: dict[int, float] = {}
        self.loaded_at: dict[int, float] = {}

    def ask(self, name: str, lasts: float | None) -> None:
        stage = self.stage
        self.since[stage.next_id] = stage.now
        self.lasts[stage.next_id] = lasts
        stage.join(name) if name in ("fast", "wide", "pair") else stage.request(name)
        self.settle()

    def settle(self) -> None:
        """Note what was granted and what began."""
        for id in self.stage.granted:
            waited = self.stage.now - self.since.pop(id)
            assert waited <= BOUND, f"request {id} waited {waited} s"
            if (lasts := self.lasts[id]) is not None:
                self.ends[id] = self.stage.now + lasts
        self.stage.granted.clear()
        for swap in self.stage.swaps:
            self.loaded_at.setdefault(swap.swap_id, self.stage.now + (START if swap.target else 0.0))

    def until(self, at: float) -> None:
        for _ in itertools.repeat(None, 5000):
            times = [*self.ends.values(), *self.loaded_at.values()]
            if self.stage.wake is not None:
                times.append(self.stage.wake)
            moment = min(times, default=at + 1.0)
            if moment > at:
                break
            self.stage.to(max(moment, self.stage.now))
            self.step()
        else:
            raise AssertionError("no end")
        self.stage.to(at)
        self.settle()

    def step(self) -> None:
        self.settle()
        now = self.stage.now
        for id in [id for id, ends in self.ends.items() if ends <= now]:
            del self.ends[id]
            where = next((s.name for s in self.stage.scheduler.serves.values() if id in s.leases), None)
            if where is not None:
                self.stage.served(id, where)
        self.settle()
        for swap in [swap for swap in self.stage.swaps if self.loaded_at[swap.swap_id] <= now]:
            self.stage.swaps.remove(swap)
            del self.loaded_at[swap.swap_id]
            self.stage.take(self.stage.scheduler.on_swap_done(swap.swap_id, now))
        self.settle()


@settings(max_examples=examples(150), deadline=None)
@given(arrivals, st.booleans())
def test_no_request_waits_longer_than_the_bound(
    story: list[tuple[float, str, float | None]], is_protected: bool
) -> None:
    told = Story(is_protected)
    for after, name, lasts in story:
        told.until(told.stage.now + after)
        told.ask(name, lasts)
    told.until(told.stage.now + BOUND + 1.0)
    assert not told.since, "everybody got an answer"
