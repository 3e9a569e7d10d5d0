"""In which order requests that wait for one serve get their places: by priority, then fairly among keys. Pure.

Start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", SIGCOMM 1996), as it is done for language
models by "Fairness in Serving Large Language Models" (Sheng et al., OSDI 2024): what counts is not requests but tokens.

Each key has a finish tag: where its last granted request ends on a virtual clock, which runs faster the larger its
weight. A request starts at its key's finish tag, but not before the virtual time, the start tag of the last grant.
The smallest start tag goes first. So a key that was idle
is next, and gains nothing by having been idle; a key with a hundred waiting requests delays another key only by the
places that it holds now.

A request is charged when it is granted, by an estimate, and corrected when it ends. Tags are kept only while requests
wait: a key that ran alone owes nothing for it, so when the first one has to wait, the requests that run are charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

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
MAX_KEYS = 1024
"""Finish tags that are remembered, in each priority. Those in the past mean nothing, and are forgotten first."""


def expected_tokens(body_bytes: int) -> float:
    """The estimated cost of a request. What it may write at most says little about what it will write."""
    return body_bytes * _PER_BYTE + ASSUMED_OUTPUT


def used_tokens(usage: ServeUsage) -> float | None:
    """The cost of a request that has ended; None: its serve did not say. Cached tokens of the prompt were not read."""
    if usage.output is None:
        return None
    return max((usage.input or 0) - (usage.cached or 0), 0) * PROMPT_TOKEN + usage.output


class _Tags:
    __slots__ = ("finish", "virtual_time")

    def __init__(self) -> None:
        self.virtual_time = 0.0
        self.finish: dict[str, float] = {}


class FairQueue:
    """The tags of one serve's keys."""

    __slots__ = ("_tags",)

    def __init__(self) -> None:
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
        tags.finish[share.key] = start + expected_tokens(body_bytes) / share.weight

    def correct(self, share: FairShare, difference: float) -> None:
        """A granted request has ended, and cost so much more than was charged."""
        finish = self._tags[share.priority].finish
        if share.key in finish:
            finish[share.key] += difference / share.weight

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
            next_start[place] = start + expected_tokens(waiter.body_bytes) / share.weight
            tagged.append((share.priority, start, position, waiter))
        tagged.sort(key=_by_tag)
        return [one[3] for one in tagged]

    @staticmethod
    def _forget(tags: _Tags) -> None:
        ahead = {key: finish for key, finish in tags.finish.items() if finish > tags.virtual_time}
        if len(ahead) >= MAX_KEYS:  # hostile, or very many keys: keep those that are furthest ahead
            ahead = dict(sorted(ahead.items(), key=itemgetter(1))[-MAX_KEYS // 2 :])
        tags.finish = ahead


_by_tag = itemgetter(0, 1, 2)
