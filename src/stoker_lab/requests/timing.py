"""What the words mean. Pure: times are seconds of one clock.

    t0               right before the request's first byte is written; `scheduled` is when it should have been
    first_token_at   the first piece that carries a token: text, thinking, refusal, a tool's name or arguments
    first_output_at  the first that is no thinking
    last_token_at    the last that carries a token; not the usage, not `[DONE]`
    N                output tokens by the server's own usage, thinking included; never the number of chunks

    TTFT = first_token_at - t0      TTFO = first_output_at - t0      E2E = last_token_at - t0
    TPOT = (last_token_at - first_token_at) / (N - 1), for N >= 2   decode rate = 1 / TPOT
    NTPOT = E2E / N   gaps = time between two chunks that carry tokens

A role-only or empty chunk does not count. An error frame after the 200 makes the request a failure. Where the server
gives no usage, everything that needs N is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stoker.domain.answer import Tokens


class RequestTiming(msgspec.Struct):
    """One request, as it went. Whoever made it keeps its content elsewhere."""

    scheduled: float
    t0: float
    ended: float
    status: int = 0
    """HTTP status; 0: none came."""
    failure: str = ""
    """What went wrong, in one word; empty: nothing."""
    first_token_at: float | None = msgspec.field(default=None, name="first")
    first_output_at: float | None = msgspec.field(default=None, name="visible")
    last_token_at: float | None = msgspec.field(default=None, name="last")
    gaps: list[float] = []
    chunks: int = 0
    """How many chunks carried tokens."""
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    stop: str = ""

    @property
    def is_ok(self) -> bool:
        return not self.failure

    @property
    def ttft(self) -> float | None:
        return None if self.first_token_at is None else self.first_token_at - self.t0

    @property
    def ttfo(self) -> float | None:
        return None if self.first_output_at is None else self.first_output_at - self.t0

    @property
    def e2e(self) -> float | None:
        return None if self.last_token_at is None else self.last_token_at - self.t0

    @property
    def tpot(self) -> float | None:
        """None: no usage, or a single token."""
        n = self.tokens.output
        if n is None or n < 2 or self.first_token_at is None or self.last_token_at is None:
            return None
        return (self.last_token_at - self.first_token_at) / (n - 1)

    @property
    def ntpot(self) -> float | None:
        n, e2e = self.tokens.output, self.e2e
        return None if not n or e2e is None else e2e / n

    @property
    def lag(self) -> float:
        """How late it was sent."""
        return self.t0 - self.scheduled


class Slo(NamedTuple):
    """What a request has to keep to be good, in seconds; None: not asked for."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None


def is_good(timed: RequestTiming, slo: Slo) -> bool:
    """A failed request never is. TPOT does not apply to a single token; TTFT and E2E do."""
    if not timed.is_ok:
        return False
    pairs = ((timed.ttft, slo.ttft), (timed.e2e, slo.e2e))
    if any(bound is not None and (value is None or value > bound) for value, bound in pairs):
        return False
    if slo.tpot is None or (timed.tokens.output is not None and timed.tokens.output < 2):
        return True
    return timed.tpot is not None and timed.tpot <= slo.tpot


class Window(NamedTuple):
    """A stretch of time that is counted: after the warm-up, before the last ones run out."""

    begin: float
    end: float


def steady(requests: Sequence[RequestTiming], window: Window) -> list[RequestTiming]:
    """Those that ended within the window."""
    return [timed for timed in requests if window.begin <= timed.ended <= window.end]


def output_rate(requests: Sequence[RequestTiming], window: Window) -> float | None:
    """Output tokens per second of all that ended well in the window; None: one of them has no usage."""
    counts = [timed.tokens.output for timed in steady(requests, window) if timed.is_ok]
    if any(count is None for count in counts) or not counts or window.end <= window.begin:
        return None
    return sum(count for count in counts if count is not None) / (window.end - window.begin)


def goodput(requests: Sequence[RequestTiming], window: Window, slo: Slo) -> tuple[float, float] | None:
    """(good requests per second, their share of all that were started in the window); failed ones stay among all."""
    started = [timed for timed in requests if window.begin <= timed.t0 <= window.end]
    if not started or window.end <= window.begin:
        return None
    good = sum(is_good(timed, slo) for timed in started)
    return good / (window.end - window.begin), good / len(started)
