"""The trace of one request, by W3C Trace Context: what its client sent, what its serves get, and when they were called.

Nothing in it holds content. Span ids follow from the one of the request, so that no span has to be opened to know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from stoker.domain.decision import Decision

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_HEADERS = (b"traceparent", b"tracestate")
_MOST_STATE = 512
"""Bytes of `tracestate` that are kept: what W3C asks for at least. A longer one is dropped as a whole."""
_IDS = 2**64


class Parent(NamedTuple):
    """The caller's span."""

    trace_id: int
    span_id: int
    is_sampled: bool
    state: bytes = b""


def read_parent(headers: Mapping[bytes, bytes]) -> Parent | None:
    """The caller's span, from `traceparent` and `tracestate`. None: there is none, or it cannot be read."""
    given = headers.get(b"traceparent")
    found = None if given is None else _TRACEPARENT.fullmatch(given)
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    trace_id, span_id = int(trace, 16), int(span, 16)
    if version == b"ff" or (version == b"00" and more is not None) or not trace_id or not span_id:
        return None
    state = headers.get(b"tracestate", b"")
    return Parent(trace_id, span_id, bool(int(flags, 16) & 1), state if len(state) <= _MOST_STATE else b"")


class TokenUsage(Protocol):
    """Tokens as a serve counted them; None: unknown."""

    input: int | None
    output: int | None
    cached: int | None
    reasoning: int | None


class Try(msgspec.Struct):
    """One call of a serve. Times are of the clock, in seconds."""

    serve: str
    host: str
    port: int
    model: str
    """The serve's own name for it."""
    sent_at: float
    is_checked: bool
    """Its answer is verified."""
    granted_at: float = 0.0
    """When its lease was granted. Calls of the same serve, one after the other, may have the same lease."""
    waited: float = 0.0
    """Seconds, for the lease."""
    ended_at: float | None = None
    status: int = 0
    """The serve's HTTP status; 0: there was none."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class RequestTrace(msgspec.Struct, eq=False):
    """`span_id` is the request's own span. Calls of serves are `child(1)`, `child(2)` and so on."""

    trace_id: int
    span_id: int
    is_sampled: bool
    received_at: float
    """By the clock."""
    method: str
    scheme: str
    parent: Parent | None = None
    tries: list[Try] = []

    def child(self, number: int) -> int:
        return (self.span_id + number) % _IDS or _IDS - 1

    def end_try(self, now: float, status: int, usage: TokenUsage) -> None:
        """The last call of a serve is over."""
        last = self.tries[-1]
        last.ended_at, last.status = now, status
        last.input_tokens, last.output_tokens = usage.input, usage.output
        last.cached_tokens, last.reasoning_tokens = usage.cached, usage.reasoning

    def sent_headers(self, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """The client's headers with the next call of a serve as the parent. `tracestate` is kept with its parent."""
        kept = [header for header in given if header[0] not in _HEADERS]
        child, flags = self.child(len(self.tries) + 1), 1 if self.is_sampled else 0
        kept.append((b"traceparent", b"00-%032x-%016x-%02x" % (self.trace_id, child, flags)))
        if self.parent is not None and self.parent.state:
            kept.append((b"tracestate", self.parent.state))
        return kept


class Tracer(Protocol):
    """Gets to know of each request when it begins, and when it is over. Microseconds."""

    def begin(self, method: str, scheme: str, headers: Mapping[bytes, bytes], now: float) -> RequestTrace: ...

    def finish(self, trace: RequestTrace, decision: Decision) -> None: ...
