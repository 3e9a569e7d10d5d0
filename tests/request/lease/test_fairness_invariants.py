"""Fair shares, in thousands of stories: what a key that floods can take from a key that asks for little.

While a request of one key waits, another key is granted tokens (by weight) for at most what the waiting key was granted
last, and one request of its own: the bound of start-time fair queueing for two keys that both wait. If all requests
cost the same, a key that asks one at a time gets the next place that the flood of another key leaves.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.examples import examples
from tests.request.lease.stage import Stage, serve

from stoker.domain.key import Priority
from stoker.domain.lease import FairShare
from stoker.request.lease.fair_queue import expected_tokens

KEYS = ("flood", "other", "third")


class Asked(NamedTuple):
    share: FairShare
    cost: float
    """Tokens, divided by the key's weight."""


class Sharing(RuleBasedStateMachine):
    """One serve that is ready, and keys that ask for its places."""

    keys = st.sampled_from(KEYS)
    sizes = (200, 2_000, 50_000)
    weights = (1.0, 1.0, 4.0)

    @initialize(places=st.integers(1, 4))
    def begin(self, places: int) -> None:
        self.stage = Stage(serve("m", max_active=places, queue=10_000))
        self.stage.load("m")
        self.granted = len(self.stage.granted)
        self.places = places
        self.asked: dict[int, Asked] = {}
        self.waiting: list[int] = []
        self.holding: list[int] = []
        self.passed: dict[int, dict[str, list[float]]] = {}
        """For each waiting request that is the first of its key: what other keys were granted meanwhile."""
        self.last_cost: dict[str, float] = {}
        self.alone: set[int] = set()
        """Requests whose key had no other when they came."""
        self.asks_one_at_a_time = True
        """Whether no request of `other` came while another one of it waited or ran."""
        self.is_flooded = True
        """Whether `flood` has had waiters ever since `other` was last granted, or first asked."""
        self.shares = {
            key: FairShare(key, Priority.NORMAL, weight) for key, weight in zip(KEYS, self.weights, strict=True)
        }

    def follow(self) -> None:
        """Take in what was granted."""
        new = self.stage.granted[self.granted :]
        self.granted += len(new)
        for id in new:
            share, cost = self.asked[id]
            self.waiting.remove(id)
            self.holding.append(id)
            self.passed.pop(id, None)
            for waiter, others in self.passed.items():
                if self.asked[waiter].share.key != share.key:
                    others.setdefault(share.key, []).append(cost)
            if share.key == "other":
                self.is_flooded = True
            self.last_cost[share.key] = cost
            for follower in self.waiting:
                if self.asked[follower].share.key == share.key:
                    self.passed[follower] = {}
                    break
        if not any(self.asked[one].share.key == "flood" for one in self.waiting) and "other" in self.last_cost:
            self.is_flooded = False

    def ask(self, key: str, size: int) -> None:
        share = self.shares[key]
        id = self.stage.next_id
        self.asked[id] = Asked(share, expected_tokens(size) / share.weight)
        if not any(self.asked[one].share.key == key for one in (*self.waiting, *self.holding)):
            self.alone.add(id)
        elif key == "other":
            self.asks_one_at_a_time = False
        is_first = not any(self.asked[one].share.key == key for one in self.waiting)
        self.waiting.append(id)
        if is_first:
            self.passed[id] = {}
        self.stage.request("m", share=share, body_bytes=size)
        self.follow()

    @rule(data=st.data(), index=st.integers(0, 2))
    def one_request(self, data: st.DataObject, index: int) -> None:
        self.ask(data.draw(self.keys), self.sizes[index])

    @rule(count=st.integers(2, 12), index=st.integers(0, 2))
    def flood(self, count: int, index: int) -> None:
        for _ in range(count):
            self.ask("flood", self.sizes[index])

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def one_ends(self, data: st.DataObject) -> None:
        id = self.holding.pop(data.draw(st.integers(0, len(self.holding) - 1)))
        self.stage.served(id, "m")
        self.follow()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_waiter_leaves(self, data: st.DataObject) -> None:
        id = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        was_first = self.passed.pop(id, None)
        if was_first is not None:
            for follower in self.waiting:
                if self.asked[follower].share.key == self.asked[id].share.key:
                    self.passed[follower] = was_first
                    break
        self.stage.leaves(id, "m")
        self.follow()

    @invariant()
    def nobody_is_passed_by_more_than_its_share(self) -> None:
        for id, others in self.passed.items():
            share, cost = self.asked[id]
            for key, costs in others.items():
                allowed = max(self.last_cost.get(share.key, 0.0), cost) + max(costs)
                assert sum(costs) <= allowed + 1e-6, f"{share.key} waits, and {key} was granted {costs}"


class TwoAlike(Sharing):
    """Two keys of one weight, and all requests cost the same."""

    keys = st.sampled_from(KEYS[:2])
    sizes = (2_000, 2_000, 2_000)
    weights = (1.0, 1.0, 1.0)

    @invariant()
    def a_flood_does_not_pass_a_key_that_asks_one_at_a_time(self) -> None:
        for id, others in self.passed.items():
            is_other = id in self.alone and self.asked[id].share.key == "other"
            if is_other and self.asks_one_at_a_time and self.is_flooded:
                assert not others, f"{id} was passed by {others}"


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestTwoAlike = TwoAlike.TestCase
TestTwoAlike.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
