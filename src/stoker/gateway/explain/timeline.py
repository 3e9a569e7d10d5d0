"""Where the time of one request went: waiting and for what, each try, the prompt, the answer.

A decision has no swaps; those that overlap its wait, in the slots of its serve, are what it waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from stoker.domain.decision import Attempt, Decision
from stoker.domain.errors import did_not_start
from stoker.domain.figures import counted
from stoker.domain.swap import SwapReport
from stoker.gateway.explain.reasons import in_words

SHORTEST = 0.02
"""Seconds. What is shorter is not shown: clocks of two processes are not compared, but rounding is."""
_FROM = {"warm": " from memory", "asleep": ": it was asleep", "cold": " from disk"}
_REFUSED_WAITING = ("queue_timeout", "swap_timeout", "queue_full")


class SpanKind(StrEnum):
    """What the time went into."""

    WAIT = "wait"
    SWAP = "swap"
    """A phase of a swap; part of a wait."""
    PLACE = "place"
    """No place was free, or the swap had not begun; part of a wait."""
    ATTEMPT = "attempt"
    PROMPT = "prompt"
    ANSWER = "answer"


class Span(msgspec.Struct, frozen=True):
    """A part of a request's time, in seconds since its arrival. `is_part`: of the span before it that is no part."""

    kind: SpanKind
    start: float
    end: float
    words: str
    is_part: bool = False

    @property
    def seconds(self) -> float:
        return self.end - self.start


class Use(NamedTuple):
    """Another request had a place of this serve meanwhile. Seconds since the arrival of the one that is explained."""

    serve: str
    start: float
    end: float


def timeline(decision: Decision, swaps: Iterable[SwapReport] = (), uses: Sequence[Use] = ()) -> list[Span]:
    """In order; parts follow what they are a part of. Empty where no time is known. `uses`: while it waited."""
    whole = decision.latency
    if whole is None:
        return []
    if decision.waits:
        waits = [Span(SpanKind(one.kind), one.start, one.end, one.words, one.kind != "wait") for one in decision.waits]
        return waits + _answering(decision, waits[0].end, whole)
    waited = min(_waited(decision), whole)
    if len(decision.all_tried) > 1 and (decision.routed is not None or not waited):
        return _tries(decision.all_tried, decision, whole)
    spans = _waiting(decision, waited, _concerned(decision, waited, swaps), uses) if waited else []
    return spans + _answering(decision, waited, whole)


def _answering(decision: Decision, start: float, whole: float) -> list[Span]:
    who = decision.replica or decision.serve
    first = decision.ttft
    if not decision.attempts:
        return []
    if first is None or not decision.stream or first >= whole - 0.001 or first < start:
        answered = first is not None or decision.outcome == "served"
        return [Span(SpanKind.ANSWER, start, whole, f"{who} answered" if answered else f"{who} was asked")]
    return [
        Span(SpanKind.PROMPT, start, first, f"{who} read the prompt, until its first token"),
        Span(SpanKind.ANSWER, first, whole, f"{who} wrote the answer"),
    ]


def _tries(attempts: Sequence[Attempt], decision: Decision, whole: float) -> list[Span]:
    """Several candidates, one after the other; what each of them waited is not known."""
    spans, at = [], 0.0
    for place, one in enumerate(attempts):
        is_last = place == len(attempts) - 1
        end = whole if is_last else min(whole, at + (one.seconds or 0.0))
        outcome = "answered" if one.outcome == "served" else in_words(one.outcome or "unknown")
        who = one.tier or one.serve
        spans.append(Span(SpanKind.ATTEMPT, at, end, f"{who}: {outcome}"))
        first = decision.ttft
        if is_last and decision.stream and first is not None and at <= first < end - 0.001:
            spans.append(Span(SpanKind.PROMPT, at, first, f"{who} until its first token", is_part=True))
            spans.append(Span(SpanKind.ANSWER, first, end, f"{who} wrote the answer", is_part=True))
        at = end
    return spans


def _waited(decision: Decision) -> float:
    """Seconds. The wait of a request that never got a lease is not recorded: it is all of its time."""
    if decision.queued is not None:
        return decision.queued
    did_not_start = bool(decision.remedy) and (decision.latency or 0.0) > SHORTEST
    gave_up = decision.outcome in ("client_left", "cut") or decision.reason in _REFUSED_WAITING or did_not_start
    return (decision.latency or 0.0) if gave_up and decision.serve and not decision.attempts else 0.0


def _concerned(decision: Decision, waited: float, swaps: Iterable[SwapReport]) -> list[SwapReport]:
    """Those that it waited for, the oldest first: swaps of its serve, and others in the same slots."""
    names = {decision.serve, decision.replica} - {""}
    found = [one for one in swaps if one.at > decision.at and one.began_at < decision.at + waited]
    slots = {slot for one in found if names & {one.serve, *one.victims} for slot in one.slot.split("+")}
    return sorted((one for one in found if slots & set(one.slot.split("+"))), key=lambda one: one.began_at)


def _waiting(decision: Decision, waited: float, swaps: Sequence[SwapReport], uses: Sequence[Use]) -> list[Span]:
    serve = decision.replica or decision.serve
    parts: list[Span] = []
    at = 0.0
    for swap in swaps:
        began = swap.began_at - decision.at
        if began - at > SHORTEST:
            parts += _before(swap, serve, at, min(began, waited), uses)
        for words, start, end in _phases(swap, began):
            start, end = max(start, at), min(end, waited)
            if end - start > SHORTEST:
                parts.append(Span(SpanKind.SWAP, start, end, f"{words} (swap {swap.swap_id})", is_part=True))
        at = max(at, min(swap.at - decision.at, waited))
    if swaps and waited - at > SHORTEST:
        parts.append(Span(SpanKind.PLACE, at, waited, "waited for a free place", is_part=True))
    return [Span(SpanKind.WAIT, 0.0, waited, _why(serve, swaps, uses)), *parts]


def _why(serve: str, swaps: Sequence[SwapReport], uses: Sequence[Use]) -> str:
    failed = [one for one in swaps if one.serve == serve and one.outcome == "failed"]
    if any(one.serve == serve and one.outcome == "ready" for one in swaps):
        again = f", after {counted(len(failed), 'failed start')}" if failed else ""
        return f"waited until {serve} was loaded{again}"
    if failed:
        why = (failed[-1].error or "").removeprefix(did_not_start(serve))
        return f"waited for {serve}, which did not start" + (f": {why}" if why else "")
    if swaps:
        return f"waited for {serve}, while its slot was used by {_list([one.serve or '' for one in swaps])}"
    others = sum(one.serve == serve for one in uses)
    if others:
        return f"waited for a place of {serve}, which answered {counted(others, 'other request')} meanwhile"
    return "waited for a place or a load"


def _before(swap: SwapReport, serve: str, start: float, end: float, uses: Sequence[Use]) -> list[Span]:
    """Why the swap did not begin at once: its victims were in use; then they stayed loaded for a while, unused."""

    def span(start: float, end: float, words: str) -> Span:
        return Span(SpanKind.PLACE, start, end, words, is_part=True)

    if not swap.victims:
        return [span(start, end, f"until the load of {swap.serve or serve} began")]
    used = [one for one in uses if one.serve in swap.victims and one.start < end and one.end > start]
    until = min(end, max((one.end for one in used), default=start))
    if end - until <= SHORTEST:
        until = end
    who = _list(swap.victims)
    found = [
        span(start, until, f"{who} kept the slot: in use"),
        span(until, end, f"{who} kept the slot: not in use, but within the time for which it stays loaded"),
    ]
    return [one for one in found if one.seconds > 0]


def _phases(swap: SwapReport, began: float) -> Iterable[tuple[str, float, float]]:
    """Each with its words, start and end in seconds since the request's arrival."""
    target, victims = swap.serve or "nothing", _list(swap.victims) or "nothing"
    words = {
        "drain": f"{victims} ended {'its' if len(swap.victims) == 1 else 'their'} requests",
        "check": f"Stoker checked that {target} can start",
        "stop": f"{victims} stopped and freed its memory",
        "wake": f"the machine of {target} woke up",
        "start": f"{target} started{_FROM.get(swap.start_kind, '')}",
        "ready": f"{target} proved that it answers",
    }
    at = began
    for phase, seconds in swap.phases.items():
        yield words.get(phase, phase), at, at + seconds
        at += seconds


def _list(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(name for name in names if name))
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""
