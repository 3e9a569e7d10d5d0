"""The headers by which clients see how much of a limit is left, as OpenAI and Anthropic send them.

`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`     reset: a duration such as `6m0s`
`anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`     reset: a time, RFC 3339

Where several limits count the same, the one with the smallest share left is shown. Limits on money have no header.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from stoker.access.limits import Account, Counter

_OPENAI = {"requests": "requests", "tokens": "tokens", "input tokens": "tokens", "output tokens": "tokens"}
_ANTHROPIC = {
    "requests": "requests", "tokens": "tokens", "input tokens": "input-tokens", "output tokens": "output-tokens",
}  # fmt: skip

Headers = list[tuple[bytes, bytes]]
_Group = tuple[tuple[Counter, ...], bytes, bytes, bytes]
"""Counters of the same kind, and the names of their headers: limit, remaining, reset."""


class RateHeaders:
    """Of the limits of one caller. The names are put together once, not with every request."""

    def __init__(self, accounts: Iterable[Account]) -> None:
        counters = [counter for account in accounts for counter in account.counters]
        openai, anthropic = b"x-ratelimit-%s-%s", b"anthropic-ratelimit-%s-%s"
        self._openai = tuple(
            (group, openai % (b"limit", name), openai % (b"remaining", name), openai % (b"reset", name))
            for name, group in _groups(counters, _OPENAI).items()
        )
        self._anthropic = tuple(
            (group, anthropic % (name, b"limit"), anthropic % (name, b"remaining"), anthropic % (name, b"reset"))
            for name, group in _groups(counters, _ANTHROPIC).items()
        )

    def at(self, at: float, is_messages: bool) -> Headers:
        """`at`: Unix time by which limits count. `is_messages`: for a client of the Anthropic Messages API."""
        headers: Headers = []
        for group, limit, remaining, reset in self._anthropic if is_messages else self._openai:
            counter, left = _tightest(group, at)
            text = _timestamp(counter.end) if is_messages else _duration(max(0.0, counter.end - at))
            headers += ((limit, b"%d" % counter.limit), (remaining, b"%d" % left), (reset, text))
        return headers


def _groups(counters: Iterable[Counter], names: dict[str, str]) -> dict[bytes, tuple[Counter, ...]]:
    found: dict[bytes, tuple[Counter, ...]] = {}
    for counter in counters:
        name = names.get(counter.rule.unit)
        if name is not None:
            found[name.encode()] = (*found.get(name.encode(), ()), counter)
    return found


def _tightest(group: tuple[Counter, ...], at: float) -> tuple[Counter, float]:
    """The counter with the smallest share left, and what is left of it."""
    counter = group[0]
    left = max(0.0, counter.left(at))
    for other in group[1:]:
        others = max(0.0, other.left(at))
        if others / other.limit < left / counter.limit:
            counter, left = other, others
    return counter, left


@lru_cache(64)
def _timestamp(at: float) -> bytes:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def _duration(seconds: float) -> bytes:
    """As OpenAI writes them: `90ms`, `12s`, `6m0s`, `3h25m0s`."""
    if seconds < 1:
        return b"%dms" % round(seconds * 1000)
    whole = round(seconds)
    if whole < 60:
        return b"%ds" % whole
    if whole < 3600:
        return b"%dm%ds" % divmod(whole, 60)
    return b"%dh%dm%ds" % (whole // 3600, whole % 3600 // 60, whole % 60)
