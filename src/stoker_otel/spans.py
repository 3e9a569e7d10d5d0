"""The spans of a request and of a swap, made after the fact. Imports opentelemetry.

POST /v1/chat/completions          SERVER: the whole request
  queue                            one for each lease that it waited for
    load NAME                      what of a swap to this serve fell into the wait; linked to the swap's own trace
  chat MODEL                       CLIENT: one for each call of a serve
    verify                         the answer was checked
swap NAME                          a trace of its own
  drain, check, stop, start, ready its phases
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from stoker.domain.decision import FAILURES, Attempt, Decision
from stoker.domain.swap import SwapReport
from stoker.domain.trace import RequestTrace, Try
from stoker.store import labels
from stoker_otel import names
from stoker_otel.settings import ServeLabels

Attributes = dict[str, str | int | float | bool | Sequence[str]]
REMEMBERED_SWAPS = 256
_QUEUE, _LOAD, _VERIFY = 1 << 16, 2 << 16, 3 << 16
"""Where the numbers of these spans begin; those of calls begin with 1. See `RequestTrace.child`."""
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)


class Swapped(NamedTuple):
    """A swap that ended, for the requests that waited for it. Unix times."""

    serve: str
    began: float
    ended: float
    context: SpanContext


class SpanBuilder:
    """`seed`: of this process, so that the ids of two processes differ."""

    def __init__(self, resource: Resource, version: str, seed: int) -> None:
        self._resource = resource
        self._scope = InstrumentationScope("stoker", version)
        self._facts: Mapping[str, ServeLabels] = {}
        self._seed = seed
        self._swaps: deque[Swapped] = deque(maxlen=REMEMBERED_SWAPS)

    def swap(self, report: SwapReport, ended: float) -> list[ReadableSpan]:
        """The spans of a swap that ended at that Unix time."""
        phases = {phase: seconds for phase, seconds in report.phases.items() if phase in labels.PHASES}
        began = ended - sum(phases.values())
        context = self._context((self._seed << 64) + report.swap_id, self._seed ^ report.swap_id)
        serve = report.serve or ",".join(report.victims)
        self._swaps.append(Swapped(serve, began, ended, context))
        attributes: Attributes = {names.SERVE: serve, names.SLOT: report.slot, names.OUTCOME: report.outcome}
        attributes[names.SWAP_START] = report.start_kind
        if report.victims:
            attributes[names.SWAP_VICTIMS] = list(report.victims)
        status = Status(StatusCode.ERROR) if report.outcome == "failed" else _UNSET
        spans = [self._span(f"swap {serve}", context, None, began, ended, attributes, status=status)]
        at = began
        for number, (phase, seconds) in enumerate(phases.items(), 1):
            child = self._context(context.trace_id, (context.span_id + number) % 2**64)
            spans.append(self._span(phase, child, context, at, at + seconds, {}))
            at += seconds
        return spans

    def request(self, trace: RequestTrace, decision: Decision, facts: Mapping[str, ServeLabels]) -> list[ReadableSpan]:
        """The spans of a request that is over. `facts`: by serve and replica."""
        self._facts = facts
        return list(self._request(trace, decision))

    def _request(self, trace: RequestTrace, d: Decision) -> Iterator[ReadableSpan]:
        state, parent = None, None
        if trace.parent is not None:
            if trace.parent.state:
                state = TraceState.from_header([trace.parent.state.decode("latin-1")])
            parent = SpanContext(trace.trace_id, trace.parent.span_id, True, _SAMPLED, state)
        own = self._context(trace.trace_id, trace.span_id, state)
        offset = d.at - trace.received_at
        """From the clock to Unix time."""
        end = d.at + (d.latency or 0.0)
        endpoint = labels.PATHS.get(d.endpoint)
        status = Status(StatusCode.ERROR, d.reason or d.outcome) if d.is_failed else _UNSET
        name = f"{trace.method} {endpoint}" if endpoint else trace.method
        attributes = self._attributes(trace, d, endpoint)
        yield self._span(name, own, parent, d.at, end, attributes, SpanKind.SERVER, status)
        checks = _checks(d)
        granted: set[float] = set()
        for number, one in enumerate(trace.tries, 1):
            if one.waited > 0 and one.granted_at not in granted:
                granted.add(one.granted_at)
                yield from self._queue(trace, own, state, number, one, offset)
            call = self._context(trace.trace_id, trace.child(number), state)
            is_last = one is trace.tries[-1]
            ended = end if one.ended_at is None else min(end, one.ended_at + offset)
            yield self._call(d, one, call, own, offset, ended, is_last)
            if one.is_checked:
                verify = self._context(trace.trace_id, trace.child(_VERIFY + number), state)
                yield self._span(
                    "verify", verify, call, one.sent_at + offset, ended, _verification(d, next(checks, None))
                )

    def _queue(
        self, trace: RequestTrace, own: SpanContext, state: TraceState | None, number: int, one: Try, offset: float
    ) -> Iterator[ReadableSpan]:
        ended = one.granted_at + offset
        began = ended - one.waited
        queue = self._context(trace.trace_id, trace.child(_QUEUE + number), state)
        yield self._span("queue", queue, own, began, ended, {names.SERVE: one.serve})
        swaps = [s for s in self._swaps if s.serve == one.serve and s.ended > began and s.began < ended]
        for index, swap in enumerate(swaps):
            load = self._context(trace.trace_id, trace.child(_LOAD + (number << 8) + index), state)
            begin, end = max(began, swap.began), min(ended, swap.ended)
            attributes: Attributes = {names.SERVE: one.serve, names.SLOT: self._fact(one.serve).slot}
            yield self._span(f"load {one.serve}", load, queue, begin, end, attributes, links=[Link(swap.context)])

    def _call(
        self, d: Decision, one: Try, call: SpanContext, own: SpanContext, offset: float, ended: float, is_last: bool
    ) -> ReadableSpan:
        operation, began = names.operation(d.endpoint), one.sent_at + offset
        attributes: Attributes = {
            names.OPERATION: operation,
            names.PROVIDER: self._fact(one.serve).provider,
            names.REQUEST_MODEL: one.model,
            names.REQUEST_STREAM: d.stream,
            names.SERVER_ADDRESS: one.host,
            names.SERVER_PORT: one.port,
            names.SERVE: one.serve,
        }
        if one.status:
            attributes[names.STATUS_CODE] = one.status
        if is_last and d.ttft is not None and d.stream and d.at + d.ttft >= began:
            attributes[names.TIME_TO_FIRST_CHUNK] = d.at + d.ttft - began
        for name, tokens in (
            (names.INPUT_TOKENS, one.input_tokens),
            (names.OUTPUT_TOKENS, one.output_tokens),
            (names.CACHED_TOKENS, one.cached_tokens),
            (names.REASONING_TOKENS, one.reasoning_tokens),
        ):
            if tokens is not None:
                attributes[name] = tokens
        status = _UNSET
        if not 200 <= one.status < 300 or (is_last and d.outcome in FAILURES):
            error = (d.reason if is_last else "") or (str(one.status) if one.status else names.OTHER)
            if not (is_last and d.outcome == "client_left"):
                attributes[names.ERROR_TYPE] = error
                status = Status(StatusCode.ERROR, error)
        return self._span(f"{operation} {one.model}", call, own, began, ended, attributes, SpanKind.CLIENT, status)

    def _attributes(self, trace: RequestTrace, d: Decision, endpoint: str | None) -> Attributes:
        found: Attributes = {names.METHOD: trace.method, names.URL_SCHEME: trace.scheme, names.REQUEST_ID: d.id}
        found[names.OUTCOME] = d.outcome
        if d.status:
            found[names.STATUS_CODE] = d.status
        given = (
            (names.ROUTE, endpoint),
            (names.URL_PATH, endpoint),
            (names.REQUEST_MODEL, d.model),
            (names.KEY, d.key),
            (names.SERVE, d.serve),
            (names.SLOT, self._fact(d.replica or d.serve).slot),
            (names.REPLICA, d.replica),
            (names.ERROR_TYPE, d.reason if d.outcome != "served" else ""),
            (names.TIER, d.routed.tier if d.routed is not None else ""),
            (names.CLASS, d.routed.task if d.routed is not None else ""),
            (names.ORCHESTRATOR, d.orchestrated.orchestrator if d.orchestrated is not None else ""),
        )
        found.update((name, value) for name, value in given if value)
        dropped = [f"{one.serve}: {one.dropped}" for one in d.candidates if one.dropped]
        if dropped:
            found[names.FALLBACK] = dropped
        return found

    def _fact(self, serve: str) -> ServeLabels:
        return self._facts.get(serve, ServeLabels())

    def _context(self, trace_id: int, span_id: int, state: TraceState | None = None) -> SpanContext:
        return SpanContext(trace_id, span_id, False, _SAMPLED, state)

    def _span(
        self, name: str, context: SpanContext, parent: SpanContext | None, began: float, ended: float,
        attributes: Mapping[str, str | int | float | bool | Sequence[str]], kind: SpanKind = SpanKind.INTERNAL,
        status: Status = _UNSET, links: Sequence[Link] = (),
    ) -> ReadableSpan:  # fmt: skip
        """Unix times."""
        return ReadableSpan(
            name, context, parent, self._resource, attributes, links=links, kind=kind, status=status,
            start_time=int(began * 1e9), end_time=int(max(began, ended) * 1e9), instrumentation_scope=self._scope,
        )  # fmt: skip


def _checks(d: Decision) -> Iterator[Attempt]:
    """The attempt of each checked call: a repair is a call of its own."""
    for attempt in d.routed.attempts if d.routed is not None else ():
        if attempt.checked:
            yield from [attempt] * (attempt.repairs + 1)


def _verification(d: Decision, attempt: Attempt | None) -> Attributes:
    found: Attributes = {names.VERIFY: d.routed.verify} if d.routed is not None else {}
    if attempt is not None:
        found[names.TIER] = attempt.tier
        if attempt.findings:
            found[names.FINDINGS] = list(attempt.findings)
    return found
