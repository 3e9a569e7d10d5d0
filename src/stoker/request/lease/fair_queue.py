"""In which order requests that wait for one serve get their places: by priority, then fairly among keys. Pure.

Start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996), as it is done for language
models by "Fairness in Serving Large Language Models" (Sheng et al., OSDI 2024): what counts is not requests but tokens.

Each key has a finish tag: where its last granted request ends on a virtual clock, which runs faster the larger its
weight. A request starts at its key's finish tag, but not before the virtual time, the start tag of the last grant.
The smallest start tag goes first. So a key that was idle
is next, and gains nothing by having been idle; a key with a hundred waiting requests delays another key only by the
places that it holds now.

A request is charged once, when it is granted: what requests of its key cost here on average. A refund at its end would
give the place of a short answer back to the key that had it. Tags are kept only while requests wait: a key that ran
alone owes nothing for it, so when the first one has to wait, the requests that run are charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from stoker.domain.key import Priority
from stoker.domain.lease import FairShare
from stoker.domain.usage import ServeUsage
from stoker.request.lease.waiter import Waiter

PROMPT_TOKEN = 0.25
"""What a token of the prompt costs, in tokens of output: reading is several times as fast as writing."""
BYTES_PER_TOKEN = 4
_PRIORITIES = len(Priority)
_PER_BYTE = PROMPT_TOKEN / BYTES_PER_TOKEN
ASSUMED_OUTPUT = 256.0
"""Tokens of an answer before anybody knows."""
MEMORY: Final = 256
"""Requests over which means are taken: later, each new one counts for 1/256."""
CHANCE: Final = 9.0
"""The square of how many standard errors a key's mean may differ from the serve's by chance."""
MAX_KEYS = 1024
"""Finish tags that are remembered, in each priority. Those in the past mean nothing, and are forgotten first. The mean
costs of as many keys are remembered.
"""


def expected_tokens(body_bytes: int) -> float:
    """The cost of a request before one has ended. What it may write at most says little about what it will write."""
    return body_bytes * _PER_BYTE + ASSUMED_OUTPUT


def used_tokens(usage: ServeUsage) -> float | None:
    """The cost of a request that has ended; None: its serve did not say. Cached tokens of the prompt were not read."""
    if usage.output is None:
        return None
    return max((usage.input or 0) - (usage.cached or 0), 0) * PROMPT_TOKEN + usage.output


class _Mean:
    """Of the last costs, with their variance."""

    __slots__ = ("count", "mean", "variance")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.variance = 0.0

    def add(self, cost: float) -> None:
        self.count = min(self.count + 1, MEMORY)
        difference = cost - self.mean
        self.mean += difference / self.count
        self.variance += (difference * (cost - self.mean) - self.variance) / self.count


class LearnedCosts:
    """What requests cost on one serve, learned from those that ended while others waited.

    Lengths of answers scatter widely, so a key's mean counts only in so far as it differs from the serve's by more than
    chance (a positive-part James-Stein estimate): keys with answers of one kind are charged alike from the beginning.
    """

    __slots__ = ("_by_key", "_serve", "_unit")

    def __init__(self) -> None:
        self._serve = _Mean()
        self._by_key: dict[str, _Mean] = {}
        self._unit = 1.0
        """What the first request that ended cost, in times of what was expected of it. Later costs are divided by it,
        so that they compare with what was charged before.
        """

    def expected(self, key: str, body_bytes: int) -> float:
        """What a request is charged."""
        serve = self._serve
        if not serve.count:
            return expected_tokens(body_bytes)
        own = self._by_key.get(key)
        if own is None:
            return serve.mean / self._unit
        difference = own.mean - serve.mean
        certain, by_chance = own.count * difference * difference, CHANCE * serve.variance
        if certain <= by_chance:
            return serve.mean / self._unit
        return (serve.mean + difference * (1.0 - by_chance / certain)) / self._unit

    def learn(self, key: str, body_bytes: int, used: float) -> None:
        """A request has ended, and cost `used` tokens."""
        used = max(used, 1.0)
        if not self._serve.count:
            self._unit = used / expected_tokens(body_bytes)
        self._serve.add(used)
        own = self._by_key.pop(key, None)
        if own is None:
            own = _Mean()
            if len(self._by_key) >= MAX_KEYS:
                del self._by_key[next(iter(self._by_key))]
        self._by_key[key] = own  # the last one to be forgotten
        own.add(used)


class _Tags:
    __slots__ = ("finish", "virtual_time")

    def __init__(self) -> None:
        self.virtual_time = 0.0
        self.finish: dict[str, float] = {}


class FairQueue:
    """The tags of one serve's keys."""

    __slots__ = ("_costs", "_tags")

    def __init__(self, costs: LearnedCosts) -> None:
        self._costs = costs
        self._tags = tuple(_Tags() for _ in range(_PRIORITIES))

    def charge(self, share: FairShare, body_bytes: int) -> None:
        """A request was granted."""
        tags = self._tags[share.priority]
        start = tags.finish.get(share.key, 0.0)
        if start > tags.virtual_time:
            tags.virtual_time = start
        else:
            start = tags.virtual_time
            if len(tags.finish) >= MAX_KEYS:
                self._forget(tags)
        tags.finish[share.key] = start + self._costs.expected(share.key, body_bytes) / share.weight

    def order(self, waiters: Iterable[Waiter]) -> list[Waiter]:
        """The waiters (in order of arrival) in the order in which they get places. Takes n log n."""
        tagged: list[tuple[int, float, int, Waiter]] = []
        next_start: dict[tuple[int, str], float] = {}
        for position, waiter in enumerate(waiters):
            share = waiter.share
            tags = self._tags[share.priority]
            place = share.priority, share.key
            start = next_start.get(place)
            if start is None:
                start = max(tags.virtual_time, tags.finish.get(share.key, 0.0))
            next_start[place] = start + self._costs.expected(share.key, waiter.body_bytes) / share.weight
            tagged.append((share.priority, start, position, waiter))
        tagged.sort(key=_by_tag)
        return [entry[3] for entry in tagged]

    @staticmethod
    def _forget(tags: _Tags) -> None:
        ahead = {key: finish for key, finish in tags.finish.items() if finish > tags.virtual_time}
        if len(ahead) >= MAX_KEYS:  # hostile, or very many keys: keep those that are furthest ahead
            ahead = dict(sorted(ahead.items(), key=itemgetter(1))[-MAX_KEYS // 2 :])
        tags.finish = ahead


_by_tag = itemgetter(0, 1, 2)
