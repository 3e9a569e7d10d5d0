"""Prompts of an exact length, counted by the server itself.

A prompt is a row of short words. Another order of the same words has the same length (a tokenizer that splits at
spaces, as nearly all do, sees the same words) and shares nothing with it: so one prompt is counted until it fits, and
every request gets an order of its own, which differs from the first word on. The order is drawn from the number of the
request and from the nonce of the run: a benchmark that is run again sends no prompt that a cache has seen, also where
its requests share a prefix with each other. What a request really took is in its usage, and that is what is kept.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import NamedTuple

CountTokens = Callable[[str], Awaitable[int]]
"""Prompt tokens of a whole request whose only turn is this text, template included. Raises UpstreamError."""

_WORDS = (
    "the of and to in is it you that he was for on are with as his they be at one have this from or had by hot but "
    "some what there we can out other were all your when up use word how said an each she which do their time if will "
    "way about many then them would write like so these her long make thing see him two has look more day could go"
)
WORDS = _WORDS.split()
FILLERS = (" a", ".", " 1", " x", "!", " .", "\n", " the", ",", " I", "a", "0")
"""Pieces that are one token in most vocabularies; which of them are here, is tried."""


class PromptSharing(StrEnum):
    """What requests share with each other. Their figures are never put together."""

    COLD = "cold"
    """Prompts share nothing, and there is no warm-up."""
    WARM = "warm"
    """Prompts share nothing."""
    HALF_SHARED = "half-shared"
    """Prompts share their first half."""
    PREFIX_CACHED = "prefix-cached"
    """All prompts are the same."""


class BenchmarkPrompt(NamedTuple):
    """A text of `tokens` prompt tokens, as the server counted it."""

    words: tuple[str, ...]
    tail: str
    tokens: int
    target: int
    overhead: int = 0
    """Tokens of the chat template, which every request begins or ends with."""

    def text(self, seed: int = 0, mode: PromptSharing = PromptSharing.WARM, nonce: int = 0) -> str:
        """The prompt of request number `seed` in the run `nonce`: the same two numbers give the same text.

        Requests of one run share what the mode says; requests of two runs share nothing.
        """
        words = list(self.words)
        random.Random(f"run {nonce}").shuffle(words)
        if mode is PromptSharing.PREFIX_CACHED:
            return " ".join(words) + self.tail
        shared = len(words) // 2 if mode is PromptSharing.HALF_SHARED else 0
        moved = words[shared:]
        random.Random(f"run {nonce} request {seed}").shuffle(moved)
        return " ".join((*words[:shared], *moved)) + self.tail


class PromptTooShort(ValueError):
    """The chat template alone takes more than the whole prompt may."""


def word_row(words: int) -> tuple[str, ...]:
    """So many words, in the order in which they always come."""
    return tuple(WORDS[place % len(WORDS)] for place in range(words))


async def make_prompt(target: int, count: CountTokens) -> BenchmarkPrompt:
    """A prompt of exactly `target` tokens, or the nearest below that could be found: `tokens` tells. Takes about
    twenty counts. Raises PromptTooShort."""
    empty = await count(WORDS[0])
    if empty > target:
        raise PromptTooShort(
            f"the shortest prompt takes {empty} tokens here (chat template included): ask for that or more"
        )
    low, high = 1, 2
    seen = {1: empty}

    async def at(words: int) -> int:
        if words not in seen:
            seen[words] = await count(" ".join(word_row(words)))
        return seen[words]

    while await at(high) <= target:
        rate = (seen[high] - empty) / (high - 1)
        low, high = high, max(high + 1, min(high * 64, 2 + int((target - empty) / max(rate, 0.01) * 1.02)))
    while high - low > 1:
        guess = low + (high - low) * (target - seen[low]) // max(1, seen[high] - seen[low])
        middle = min(high - 1, max(low + 1, guess))
        low, high = (middle, high) if await at(middle) <= target else (low, middle)
    text = " ".join(word_row(low))
    tail, tokens = await _filled(text, seen[low], target, count)
    return BenchmarkPrompt(word_row(low), tail, tokens, target, overhead=max(0, empty - 1))


async def _filled(text: str, tokens: int, target: int, count: CountTokens) -> tuple[str, int]:
    """What to put behind the text, so that it has `target` tokens."""
    tail = ""
    for filler in FILLERS:
        while tokens < target:
            found = await count(text + tail + filler)
            if not tokens < found <= target:
                break
            tail, tokens = tail + filler, found
    return tail, tokens


class ReplayPrompts:
    """Prompts for a replay: equal ids become equal pieces of text, so that what was shared is shared again.

    Lengths are right to within 2 %: `per_word` and `empty` were measured once. Each request's own usage says what it
    came to.
    """

    SIZE = 512
    """Tokens per block, as the trace has them."""

    def __init__(self, empty: int, per_word: float) -> None:
        self._empty = empty
        self._per_word = per_word

    def text(self, tokens: int, ids: tuple[int, ...], seed: int, nonce: int = 0) -> str:
        """About `tokens` long. Without ids nothing is shared; with them nothing but within the run `nonce`."""
        left = max(1, round((tokens - self._empty) / self._per_word))
        whole = max(1, round(self.SIZE / self._per_word))
        pieces: list[str] = []
        for place in range(-(-left // whole)):
            size = min(whole, left - place * whole)
            name = f"block {ids[place]}" if place < len(ids) else f"request {seed} {place}"
            words = list(word_row(size))
            random.Random(f"run {nonce} {name}").shuffle(words)
            pieces += words
        return " ".join(pieces)


async def calibrate_replay(count: CountTokens) -> ReplayPrompts:
    """Two counts: what the template takes, and what a word does."""
    one, many = await count(WORDS[0]), await count(" ".join(word_row(len(WORDS) * 4)))
    per_word = (many - one) / (len(WORDS) * 4 - 1)
    return ReplayPrompts(round(one - per_word), per_word)
