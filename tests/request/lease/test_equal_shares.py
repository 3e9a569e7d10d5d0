"""Keys of equal weight get equally many places, however long or short their answers are.

Over any 20 grants in a row during which two such keys always have requests that wait, they differ by at most two: the
bound of start-time fair queueing. Keys whose answers differ in length share tokens instead.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.request.lease.stage import Stage, serve

from stoker.domain.key import Priority
from stoker.domain.lease import FairShare
from stoker.request.lease.fair_queue import MAX_KEYS, MEMORY, LearnedCosts

A, B = FairShare("a"), FairShare("b")
WINDOW = 20
Length = Callable[[str, int], int]
"""The tokens of an answer, by its key and how many requests were granted before."""


class Running(NamedTuple):
    id: int
    key: str
    granted_at: float


class Contest:
    """Keys that always have waiting requests for the places of one serve."""

    def __init__(self, stage: Stage, length: Length, *shares: FairShare, body_bytes: int = 2000) -> None:
        self.stage, self.length, self.body_bytes = stage, length, body_bytes
        self.shares = {share.key: share for share in shares}
        self.asked: dict[int, str] = {}
        self.running: list[Running] = []
        self.seen = len(stage.granted)
        self.grants: list[str] = []
        """Keys, in the order in which they got places."""
        self.tokens = dict.fromkeys(self.shares, 0)

    def ask(self, key: str, count: int = 1) -> None:
        for _ in range(count):
            self.asked[self.stage.next_id] = key
            self.stage.request("m", share=self.shares[key], body_bytes=self.body_bytes)
            self.follow()

    def follow(self) -> None:
        for id in self.stage.granted[self.seen :]:
            self.running.append(Running(id, self.asked[id], self.stage.now))
            self.grants.append(self.asked[id])
        self.seen = len(self.stage.granted)

    def end(self, index: int, keeps_busy: bool = True, says_usage: bool = True) -> None:
        """One of those that run ends. Its key asks again."""
        id, key, _ = self.running.pop(index % len(self.running))
        tokens = self.length(key, len(self.grants))
        self.tokens[key] += tokens
        if keeps_busy:
            self.ask(key)
        self.stage.served(id, "m", tokens if says_usage else None)
        self.follow()


def ready(places: int) -> Stage:
    stage = Stage(serve("m", max_active=places, queue=10_000))
    stage.load("m")
    return stage


def worst_difference(grants: list[str], one: str = "a", other: str = "b") -> int:
    """The greatest difference between two keys over as many grants in a row as a window has."""
    windows = [grants[first : first + WINDOW] for first in range(max(1, len(grants) - WINDOW + 1))]
    return max(abs(window.count(one) - window.count(other)) for window in windows)


@given(
    tokens=st.integers(1, 10_000),
    body_bytes=st.sampled_from((0, 2_000, 400_000)),
    places=st.integers(1, 8),
    order=st.lists(st.integers(0, 7), min_size=60, max_size=120),
    unsaid=st.sets(st.integers(0, 20)),
)
@settings(max_examples=examples(200, 15), deadline=None)
def test_two_busy_keys_differ_by_at_most_two_of_twenty_places(
    tokens: int, body_bytes: int, places: int, order: list[int], unsaid: set[int]
) -> None:
    """`order`: which of those that run ends; `unsaid`: of which ones the serve does not say what they took."""
    contest = Contest(ready(places), lambda key, number: tokens, A, B, body_bytes=body_bytes)
    contest.ask("a", 40)
    contest.ask("b", 40)
    contest.grants.clear()
    for number, index in enumerate(order):
        contest.end(index, says_usage=number not in unsaid)
    assert worst_difference(contest.grants) <= 2, "".join(contest.grants)


@pytest.mark.parametrize("longest", [10, 1_000, 10_000])
@pytest.mark.parametrize("seed", [0, 2, 5, 7])
def test_answers_that_scatter_do_not_make_equal_keys_unequal(longest: int, seed: int) -> None:
    dice = random.Random(seed)
    contest = Contest(ready(1 + seed), lambda key, number: dice.randint(1, longest), A, B)
    contest.ask("a", 20)
    contest.ask("b", 20)
    contest.grants.clear()
    for _ in range(200):
        contest.end(dice.randrange(8))
    assert worst_difference(contest.grants) <= 2, "".join(contest.grants)


def test_keys_with_longer_and_shorter_answers_share_tokens() -> None:
    contest = Contest(ready(2), lambda key, number: 1_000 if key == "a" else 100, A, B, body_bytes=0)
    contest.ask("a", 20)
    contest.ask("b", 20)
    for _ in range(60):
        contest.end(0)
    contest.tokens = dict.fromkeys(contest.tokens, 0)
    for _ in range(600):
        contest.end(0)
    assert contest.tokens["a"] < 2 * contest.tokens["b"]
    assert contest.tokens["b"] < 2 * contest.tokens["a"]


@given(tokens=st.integers(1, 10_000), weight=st.sampled_from((1.0, 2.0, 5.0)), places=st.integers(1, 8))
@settings(max_examples=examples(50), deadline=None)
def test_weights_hold_for_answers_of_every_length(tokens: int, weight: float, places: int) -> None:
    heavy = FairShare("heavy", weight=weight)
    contest = Contest(ready(places), lambda key, number: tokens, A, B, heavy)
    for key in ("a", "b", "heavy"):
        contest.ask(key, 20)
    contest.grants.clear()
    for number in range(140):
        contest.end(number)
    assert worst_difference(contest.grants) <= 2
    assert abs(contest.grants.count("heavy") - weight * contest.grants.count("a")) <= 2 * weight


@given(
    tokens=st.integers(1, 10_000),
    places=st.integers(1, 6),
    visits=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=5),
)
@settings(max_examples=examples(100), deadline=None)
def test_a_key_that_comes_and_goes_gains_and_loses_nothing(
    tokens: int, places: int, visits: list[tuple[int, int]]
) -> None:
    """`visits`: for how many ends it stays away, and with how many requests it comes back."""
    contest = Contest(ready(places), lambda key, number: tokens, A, B)
    contest.ask("a", 40)
    for away, requests in visits:
        for number in range(away):
            contest.end(number)
        contest.grants.clear()
        contest.ask("b", requests)
        waiting = requests
        while waiting > 1:
            contest.end(0, keeps_busy=contest.running[0].key == "a")
            waiting = requests - contest.grants.count("b")
        assert worst_difference(contest.grants) <= 2, "".join(contest.grants)
        while any(one.key == "b" for one in contest.running) or waiting:
            contest.end(0, keeps_busy=contest.running[0].key == "a")
            waiting = requests - contest.grants.count("b")


def test_priorities_go_before_shares_and_are_shared_each_for_itself() -> None:
    urgent = [FairShare(key, Priority.INTERACTIVE) for key in "cd"]
    contest = Contest(ready(2), lambda key, number: 3, A, B, *urgent)
    for key in "abcd":
        contest.ask(key, 20)
    contest.grants.clear()
    for _ in range(40):
        contest.end(0, keeps_busy=False)
    assert set(contest.grants[:38]) <= set("cd")
    assert worst_difference(contest.grants[:36], "c", "d") <= 2
    for _ in range(30):
        contest.end(0, keeps_busy=False)
    assert worst_difference(contest.grants[40:]) <= 2


@pytest.mark.parametrize("tokens", [1, 30, 10_000])
def test_a_key_that_asks_once_a_second_beside_a_flood_gets_half_of_the_places(tokens: int) -> None:
    """Four places and answers of three seconds are 80 in a minute. Of these the second key asks for 60."""
    contest = Contest(ready(4), lambda key, number: tokens, A, B)
    contest.ask("a", 12)
    contest.grants.clear()
    for quarter in range(240):
        contest.stage.to(quarter / 4)
        while contest.running and contest.stage.now - contest.running[0].granted_at >= 3.0 + 0.25 * (quarter % 3):
            contest.end(0, keeps_busy=contest.running[0].key == "a")
        if quarter % 4 == 0:
            contest.ask("b")
    assert contest.grants.count("b") >= 0.47 * len(contest.grants), "".join(contest.grants)
    assert not contest.stage.refused


def test_a_serve_remembers_the_costs_of_so_many_keys_only() -> None:
    costs = LearnedCosts()
    for _ in range(MEMORY):
        costs.learn("long", 0, 9_000.0)
        costs.learn("short", 0, 10.0)
    assert costs.expected("long", 0) > 5 * costs.expected("new", 0) / 3
    for number in range(MAX_KEYS):
        costs.learn(f"key {number}", 0, 10.0)
    assert costs.expected("long", 0) == costs.expected("new", 0)
