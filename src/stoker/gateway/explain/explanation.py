"""The explanation of one request, from its decision and what is remembered of the time in which it waited."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from stoker.domain.decision import Decision, WaitPart
from stoker.domain.swap import SwapReport
from stoker.gateway.explain.facts import Fact, facts
from stoker.gateway.explain.timeline import Span, SpanKind, Use, timeline


class Explanation(msgspec.Struct, frozen=True):
    facts: list[Fact]
    spans: list[Span]


def explain(decision: Decision, swaps: Iterable[SwapReport] = (), decisions: Iterable[Decision] = ()) -> Explanation:
    """`swaps`, `decisions`: those that are remembered; which of them concern this request is found out here."""
    spans = _spans(decision, swaps, decisions)
    return Explanation(facts(decision, spans), spans)


def with_waits(decision: Decision, swaps: Iterable[SwapReport], decisions: Iterable[Decision]) -> Decision:
    """The decision with what it waited for, as it is kept: it explains itself when nothing else is remembered. What an
    engine printed is left out.
    """
    silent = [replace(one, error=None) for one in swaps]
    spans = _spans(decision, silent, decisions)
    waits = [one for one in spans if one.kind in (SpanKind.WAIT, SpanKind.SWAP, SpanKind.PLACE)]
    if not waits:
        return decision
    return replace(decision, waits=[WaitPart(one.kind.value, one.start, one.end, one.words) for one in waits])


def _spans(decision: Decision, swaps: Iterable[SwapReport], decisions: Iterable[Decision]) -> list[Span]:
    uses = [use for one in decisions if (use := _use(one, decision)) is not None] if decision.queued else []
    return timeline(decision, swaps, uses)


def _use(other: Decision, decision: Decision) -> Use | None:
    """When it had a place of a serve, if that was while this one waited."""
    if other is decision or not other.attempts or other.latency is None or decision.queued is None:
        return None
    arrived = other.at - decision.at
    use = Use(other.replica or other.serve, arrived + (other.queued or 0.0), arrived + other.latency)
    return use if use.start < decision.queued and use.end > 0 else None
