"""What a key, or all keys of an application together, have used in each window, and what is left. Pure.

    reserve   before a request is sent: an estimate of what it will use. Refused if it does not fit
    settle    when it has ended: what the serves counted takes the place of the estimate

A request counts in the windows in which it was admitted. What was admitted is never cut: if it uses more than it
reserved, the next request has to wait longer. Everything is synchronous, so two requests never share what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stoker.access.windows import LimitWindow
from stoker.domain.errors import ClientError
from stoker.domain.key import UsageLimits

LIMIT_REACHED = "rate_limit_exceeded"
"""The code of the 429. OpenAI's own word, which clients know."""


class Amounts(NamedTuple):
    """What requests use. Tokens of the prompt include cached ones; `cost` is money for clouds."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class LimitRule:
    """One limit: which amounts it counts, in which window."""

    setting: str
    """Its name in the configuration."""
    window: LimitWindow
    unit: str
    weights: Amounts
    """How much one of each amount counts."""

    def measure(self, used: Amounts) -> float:
        weights = self.weights
        return (
            weights.requests * used.requests
            + weights.input * used.input
            + weights.output * used.output
            + weights.cost * used.cost
        )


_TOKENS = Amounts(input=1, output=1)
RULES = (
    LimitRule("requests_per_minute", LimitWindow.MINUTE, "requests", Amounts(requests=1)),
    LimitRule("tokens_per_minute", LimitWindow.MINUTE, "tokens", _TOKENS),
    LimitRule("input_tokens_per_minute", LimitWindow.MINUTE, "input tokens", Amounts(input=1)),
    LimitRule("output_tokens_per_minute", LimitWindow.MINUTE, "output tokens", Amounts(output=1)),
    LimitRule("tokens_per_day", LimitWindow.DAY, "tokens", _TOKENS),
    LimitRule("tokens_per_month", LimitWindow.MONTH, "tokens", _TOKENS),
    LimitRule("cost_per_day", LimitWindow.DAY, "of money for clouds", Amounts(cost=1.0)),
    LimitRule("cost_per_month", LimitWindow.MONTH, "of money for clouds", Amounts(cost=1.0)),
)
"""Every limit. Each counts on its own, and a request has to fit all of them."""


class LimitState(NamedTuple):
    """One limit now. `remaining` is never below 0; `reset_at`: Unix time of the end of the window."""

    rule: LimitRule
    limit: float
    used: float
    remaining: float
    reset_at: float


class Counter:
    """What is used of one limit in its current window, reservations included."""

    __slots__ = ("end", "limit", "rule", "start", "used")

    def __init__(self, rule: LimitRule, earlier: tuple[float, float] | None = None) -> None:
        """`earlier`: start of the window and amount, of an earlier run."""
        self.rule = rule
        self.limit = float("inf")
        self.start = self.end = float("-inf")
        self.used = 0.0
        if earlier is not None:
            self.start, self.end = rule.window.bounds(earlier[0])
            self.used = earlier[1]

    def configure(self, limit: float) -> None:
        self.limit = limit

    def add(self, amount: float) -> None:
        self.used = max(0.0, self.used + amount)

    def advance(self, at: float) -> None:
        """Begin a new window if the current one is over. If the clock was set back, what was used counts in the window
        that the new time is in.
        """
        if self.start <= at < self.end:
            return
        if at >= self.end:
            self.used = 0.0
        self.start, self.end = self.rule.window.bounds(at)


class Reservation(NamedTuple):
    """What was reserved, and in which windows: their starts, in the order of the account's counters."""

    amounts: Amounts
    starts: tuple[float, ...]


class Account:
    """The counters of one key or one application. `owner`: how messages call it: `key 'alice'`."""

    def __init__(self, owner: str, limits: UsageLimits, used: Mapping[str, tuple[float, float]] | None = None) -> None:
        """`used`: start of the window and amount by setting, from `snapshot` of an earlier run."""
        self.owner = owner
        self._has_changed = False
        self._counters: tuple[Counter, ...] = ()
        self._earlier = used or {}
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

    @property
    def has_limits(self) -> bool:
        return bool(self._counters)

    def check(self, need: Amounts, at: float) -> None:
        """Raises ClientError 429 if `need` does not fit what is left; 413 if it can never fit. Reserves nothing."""
        for counter in self._counters:
            wanted = counter.rule.measure(need)
            if wanted <= 0:
                continue
            counter.advance(at)
            if wanted > counter.limit:
                raise _too_large(self.owner, counter, wanted)
            if counter.used + wanted > counter.limit:
                raise _reached(self.owner, counter, at)

    def fits(self, need: Amounts, at: float) -> bool:
        try:
            self.check(need, at)
        except ClientError:
            return False
        return True

    def reserve(self, need: Amounts, at: float) -> Reservation:
        """Count `need`. The caller has called `check`."""
        self._has_changed = True
        for counter in self._counters:
            counter.advance(at)
            counter.add(counter.rule.measure(need))
        return Reservation(need, tuple(counter.start for counter in self._counters))

    def settle(self, reservation: Reservation, used: Amounts) -> None:
        """Replace a reservation by what was used. A window that is over stays as it was."""
        if len(reservation.starts) != len(self._counters):
            return  # the limits were changed meanwhile
        self._has_changed = True
        for counter, start in zip(self._counters, reservation.starts, strict=True):
            if counter.start == start:
                counter.add(counter.rule.measure(used) - counter.rule.measure(reservation.amounts))

    def output_left(self, prompt: int, at: float) -> float:
        """Tokens of output that still fit every limit behind a prompt of this length; infinity: no limit."""
        left = float("inf")
        for counter in self._counters:
            if counter.rule.weights.output:
                counter.advance(at)
                left = min(left, counter.limit - counter.used - counter.rule.weights.input * prompt)
        return max(0.0, left)

    def states(self, at: float) -> list[LimitState]:
        found = []
        for counter in self._counters:
            counter.advance(at)
            remaining = max(0.0, counter.limit - counter.used)
            found.append(LimitState(counter.rule, counter.limit, counter.used, remaining, counter.end))
        return found

    def changes(self) -> dict[str, tuple[float, float]]:
        """`snapshot`, if anything has changed since the last call; else empty."""
        has_changed, self._has_changed = self._has_changed, False
        return self.snapshot() if has_changed else {}

    def snapshot(self) -> dict[str, tuple[float, float]]:
        """Start of the window and amount of each counter that was used, for the next run."""
        return {one.rule.setting: (one.start, one.used) for one in self._counters if one.start > 0}


def check_all(accounts: Iterable[Account], need: Amounts, at: float) -> None:
    """Raises as `Account.check`, for the first account that `need` does not fit."""
    for account in accounts:
        account.check(need, at)


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
