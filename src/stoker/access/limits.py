"""What a key, or all keys of an application together, have used in each window, and what is left. Pure.

A request counts in the windows in which it was admitted. `quota.Charge` reserves before a request is sent, and puts
what the serves counted in the place of the reservation when it ends. What was admitted is never cut: if it uses more
than it reserved, the next request has to wait longer. Everything is synchronous, so two requests never share what is
left.

Clients see how much of a limit is left in headers, as OpenAI and Anthropic send them:

`x-ratelimit-{limit,remaining,reset}-{requests,tokens}`     reset: a duration such as `6m0s`
`anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`     reset: a time, RFC 3339

Where several limits count the same, the one with the smallest share left is shown. Limits on money have no header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from stoker.access.windows import LimitWindow
from stoker.domain.errors import ClientError
from stoker.domain.key import UsageLimits

LIMIT_REACHED = "rate_limit_exceeded"
"""The code of the 429. OpenAI's own word, which clients know."""


class Amounts(NamedTuple):
    """What a request used. Tokens of the prompt include cached ones; `cost` is money for clouds and tools."""

    input: int = 0
    output: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class LimitRule:
    """One limit: what it counts, in which window. `requests`, `input`, `output`, `cost`: 1 for what it counts."""

    setting: str
    """Its name in the configuration."""
    window: LimitWindow
    unit: str
    requests: int = 0
    input: int = 0
    output: int = 0
    cost: int = 0


RULES = (
    LimitRule("requests_per_minute", LimitWindow.MINUTE, "requests", requests=1),
    LimitRule("tokens_per_minute", LimitWindow.MINUTE, "tokens", input=1, output=1),
    LimitRule("input_tokens_per_minute", LimitWindow.MINUTE, "input tokens", input=1),
    LimitRule("output_tokens_per_minute", LimitWindow.MINUTE, "output tokens", output=1),
    LimitRule("tokens_per_day", LimitWindow.DAY, "tokens", input=1, output=1),
    LimitRule("tokens_per_month", LimitWindow.MONTH, "tokens", input=1, output=1),
    LimitRule("cost_per_day", LimitWindow.DAY, "of money for clouds and tools", cost=1),
    LimitRule("cost_per_month", LimitWindow.MONTH, "of money for clouds and tools", cost=1),
)
"""Every limit. Each counts on its own, and a request has to fit all of them."""


class LimitState(NamedTuple):
    """One limit now. `remaining` is never below 0; `reset_at`: Unix time of the end of the window."""

    rule: LimitRule
    limit: float
    used: float
    remaining: float
    reset_at: float
    owner: str
    """`key 'alice'`, or `application 'agents'`: its keys share this limit."""


class Counter:
    """What is used of one limit in its current window, reservations included."""

    __slots__ = ("end", "input", "limit", "output", "rule", "start", "used")

    def __init__(self, rule: LimitRule, earlier: tuple[float, float] | None = None) -> None:
        """`earlier`: start of the window and amount, of an earlier run."""
        self.rule = rule
        self.input, self.output = rule.input, rule.output
        self.limit = float("inf")
        self.start = self.end = float("-inf")
        self.used = 0.0
        if earlier is not None:
            self.start, self.end = rule.window.bounds(earlier[0])
            self.used = earlier[1]

    def configure(self, limit: float) -> None:
        self.limit = limit

    def add(self, amount: float) -> None:
        self.used += amount
        if self.used < 0:
            self.used = 0.0

    def advance(self, at: float) -> None:
        """Begin a new window if the current one is over. If the clock was set back, what was used counts in the window
        that the new time is in.
        """
        if self.start <= at < self.end:
            return
        if at >= self.end:
            self.used = 0.0
        self.start, self.end = self.rule.window.bounds(at)

    def counts(self, since: float) -> bool:
        """Whether what was admitted at `since` counts in the current window. One that nothing has begun yet begins."""
        if since >= self.end:
            self.advance(since)
        return self.start <= since

    def left(self, at: float) -> float:
        """What is left; below 0 if more was used than is allowed."""
        if not self.start <= at < self.end:
            self.advance(at)
        return self.limit - self.used


class Account:
    """The counters of one key or one application. `owner`: how messages call it: `key 'alice'`."""

    def __init__(self, owner: str, limits: UsageLimits, used: Mapping[str, tuple[float, float]] | None = None) -> None:
        """`used`: start of the window and amount by setting, from `snapshot` of an earlier run."""
        self.owner = owner
        self._earlier = used or {}
        self._counters: tuple[Counter, ...] = ()
        self._of_requests: tuple[Counter, ...] = ()
        self._of_tokens: tuple[Counter, ...] = ()
        self._of_cost: tuple[Counter, ...] = ()
        self.configure(limits)

    def configure(self, limits: UsageLimits) -> None:
        """Change the limits. What was used in the current windows stays."""
        known = {counter.rule.setting: counter for counter in self._counters}
        counters = []
        for rule in RULES:
            limit = getattr(limits, rule.setting)
            if limit is None:
                continue
            counter = known.get(rule.setting) or Counter(rule, self._earlier.get(rule.setting))
            counter.configure(limit)
            counters.append(counter)
        self._counters = tuple(counters)
        self._of_requests = tuple(one for one in counters if one.rule.requests)
        self._of_tokens = tuple(one for one in counters if one.rule.input or one.rule.output)
        self._of_cost = tuple(one for one in counters if one.rule.cost)

    @property
    def has_limits(self) -> bool:
        return bool(self._counters)

    @property
    def counters(self) -> tuple[Counter, ...]:
        return self._counters

    # -- requests ----------------------------------------------------------------------------------------------------

    def check_request(self, at: float) -> None:
        """Raises ClientError 429 if no further request fits."""
        for counter in self._of_requests:
            if counter.left(at) < 1:
                raise _reached(self.owner, counter, at)

    def add_request(self) -> None:
        for counter in self._of_requests:
            counter.add(1)

    # -- tokens ------------------------------------------------------------------------------------------------------

    def output_left(self, prompt: int, at: float) -> float:
        """Tokens of output that fit every limit behind a prompt of this length, at least 1; infinity: no limit.

        Raises ClientError 429 if not even one fits, and 413 if that can never fit.
        """
        most = float("inf")
        for counter in self._of_tokens:
            left = counter.left(at) - counter.input * prompt
            if counter.output:
                if left < 1:
                    raise self._refusal(counter, prompt, at)
                if left < most:
                    most = left
            elif left < 0:
                raise self._refusal(counter, prompt, at)
        return most

    def add_tokens(self, prompt: int, output: int) -> None:
        for counter in self._of_tokens:
            counter.add(counter.input * prompt + counter.output * output)

    # -- money -------------------------------------------------------------------------------------------------------

    def check_cost(self, amount: float, at: float) -> None:
        """Raises as `output_left`."""
        for counter in self._of_cost:
            if amount > counter.limit:
                raise _too_large(self.owner, counter, amount)
            if amount > counter.left(at):
                raise _reached(self.owner, counter, at)

    def add_cost(self, amount: float) -> None:
        for counter in self._of_cost:
            counter.add(amount)

    def has_money(self, at: float) -> bool:
        return all(counter.left(at) > 0 for counter in self._of_cost)

    # -- the end of a request ----------------------------------------------------------------------------------------

    def correct(self, prompt: int, output: int, cost: float, since: float) -> None:
        """A request that was admitted at `since` used so much more than it reserved. A window that began later stays
        as it is.
        """
        for counter in self._of_tokens:
            if counter.counts(since):
                counter.add(counter.input * prompt + counter.output * output)
        for counter in self._of_cost:
            if counter.counts(since):
                counter.add(cost)

    # -- what is there -----------------------------------------------------------------------------------------------

    def states(self, at: float) -> list[LimitState]:
        found = []
        for counter in self._counters:
            left = max(0.0, counter.left(at))
            found.append(LimitState(counter.rule, counter.limit, counter.used, left, counter.end, self.owner))
        return found

    def snapshot(self) -> dict[str, tuple[float, float]]:
        """Start of the window and amount of each counter that was used, for the next run."""
        return {one.rule.setting: (one.start, one.used) for one in self._counters if one.start > 0}

    def _refusal(self, counter: Counter, prompt: int, at: float) -> ClientError:
        wanted = counter.input * prompt + counter.output
        is_too_large = wanted > counter.limit
        return _too_large(self.owner, counter, wanted) if is_too_large else _reached(self.owner, counter, at)


def _reached(owner: str, counter: Counter, at: float) -> ClientError:
    rule = counter.rule
    wait = max(1.0, counter.end - at)
    error = ClientError(
        f"{owner} has reached its {rule.setting}: {_figure(counter.used)} of {_figure(counter.limit)} {rule.unit} are "
        f"used or reserved; the {rule.window.value} ends in {_duration(wait)}",
        code=LIMIT_REACHED,
        status=429,
        retry_after=wait,
    )
    error.details = {"limit": rule.setting, "reset_seconds": round(wait, 1)}
    return error


def _too_large(owner: str, counter: Counter, wanted: float) -> ClientError:
    rule = counter.rule
    return ClientError(
        f"this request needs {_figure(wanted)} {rule.unit} by estimate, more than {rule.setting} of {owner} "
        f"({_figure(counter.limit)}): send less, or have the limit raised",
        code="request_exceeds_limit",
        status=413,
    )


def _figure(amount: float) -> str:
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.4f}".rstrip("0")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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
            text = _timestamp(counter.end) if is_messages else _header_duration(max(0.0, counter.end - at))
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


def _header_duration(seconds: float) -> bytes:
    """As OpenAI writes them: `90ms`, `12s`, `6m0s`, `3h25m0s`."""
    if seconds < 1:
        return b"%dms" % round(seconds * 1000)
    whole = round(seconds)
    if whole < 60:
        return b"%ds" % whole
    if whole < 3600:
        return b"%dm%ds" % divmod(whole, 60)
    return b"%dh%dm%ds" % (whole // 3600, whole % 3600 // 60, whole % 60)
