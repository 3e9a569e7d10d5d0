"""The explanation of one request, from its decision and what is remembered of the time in which it waited."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stoker.domain.decision import Decision
from stoker.domain.swap import EndedSwap
from stoker.gateway.explain.facts import Fact, facts
from stoker.gateway.explain.timeline import Span, timeline


class Explanation(msgspec.Struct, frozen=True):
    facts: list[Fact]
    spans: list[Span]


def explain(decision: Decision, swaps: Iterable[EndedSwap] = (), decisions: Iterable[Decision] = ()) -> Explanation:
    """`swaps`, `decisions`: those that are remembered; which of them concern this request is found out here."""
    others = sum(_was_in_the_way(one, decision) for one in decisions) if decision.queued else 0
    spans = timeline(decision, swaps, others)
    return Explanation(facts(decision, spans), spans)


def _was_in_the_way(other: Decision, decision: Decision) -> bool:
    """Whether it had a place of the same serve while this one waited."""
    if other is decision or (other.replica or other.serve) != (decision.replica or decision.serve):
        return False
    if not other.attempts or other.latency is None or decision.queued is None:
        return False
    began, ended = other.at + (other.queued or 0.0), other.at + other.latency
    return began < decision.at + decision.queued and ended > decision.at
