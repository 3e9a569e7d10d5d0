"""A decision in words. Content-free, as the decision is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stoker.domain import figures
from stoker.domain.decision import Decision
from stoker.domain.printable import one_line
from stoker.domain.speed import tokens_per_second
from stoker.domain.task import risk_in_words
from stoker.gateway.explain.reasons import in_words
from stoker.gateway.explain.timeline import Span, SpanKind
from stoker.request.translate.neutral.gaps import LOSSY

OUTCOMES = {
    "open": "still open, or the process ended before it was finished",
    "served": "answered completely",
    "client_left": "the client left before the end",
    "refused": "refused before anything was generated",
    "upstream_failed": "the model server failed",
    "cut": "ended by Stoker: a drain timeout, a shutdown or an operator",
    "stalled": "ended because the model server or the client stopped sending",
    "bug": "an internal error of Stoker; search its log for this id",
}

BY = {
    "declared": "the caller's declaration", "rules": "its form", "learned": "its text", "model": "the classifier model",
    "default": "default: no signs of a class",
}  # fmt: skip
"""What decided the class of a request."""


class Fact(msgspec.Struct, frozen=True):
    """`name` is empty if the fact goes on with the one before."""

    name: str
    words: str


def facts(decision: Decision, spans: Sequence[Span] = ()) -> list[Fact]:
    """In the order in which they happened. `spans`: the request's `timeline`."""
    found = [
        ("arrived", f"{figures.moment(decision.at)}, {decision.endpoint}{' (streamed)' if decision.stream else ''}"),
        (
            "asked for",
            (f"'{decision.model}'" if decision.model else "no model")
            + (f", with key '{decision.key}'" if decision.key else ", without a key"),
        ),
        *([("session", decision.session)] if decision.session else []),
        *_routed(decision),
        *_orchestrated(decision),
        *_candidates(decision),
        *([] if decision.routed is not None else _tried(decision)),
        *_waited(decision, spans),
        ("attempts", str(decision.attempts)),
        ("first token", _first_token(decision)),
        ("whole reply", _after(decision.latency)),
        ("tokens", _tokens(decision)),
        *_media(decision),
        *_tools(decision),
        ("outcome", _outcome(decision)),
        *([("what to do", decision.remedy)] if decision.remedy else []),
        *_like_it(decision),
        ("edits made", _edits(decision)),
        *_lost(decision),
    ]
    return [Fact(name, one_line(words)) for name, words in found]


def as_text(request_id: str, found: Iterable[Fact]) -> str:
    """For a terminal, one fact per line."""
    lines = [f"  {one.name:<12} {one.words}".rstrip() for one in found]
    return "\n".join([f"request {one_line(request_id)}", *lines])


def _waited(decision: Decision, spans: Sequence[Span]) -> list[tuple[str, str]]:
    whole = next((one for one in spans if one.kind is SpanKind.WAIT), None)
    if whole is None:
        return [
            ("waited", f"{figures.seconds(decision.queued)} for a place or a load" if decision.queued else "not at all")
        ]
    parts = [one for one in spans if one.is_part and one.kind in (SpanKind.PLACE, SpanKind.SWAP)]
    first = ("waited", f"{figures.seconds(whole.seconds)} {whole.words.removeprefix('waited ')}")
    return [first, *(("", f"{figures.seconds(one.seconds)}: {one.words}") for one in parts)]


_EDITS = {
    "model": "the serve's own name", "include_usage": "usage was asked for",
    "id_slot": "its own sequence of the engine", "lowered:max_tokens": "as many as the prompt leaves",
}  # fmt: skip


def _edits(decision: Decision) -> str:
    edits = [one.strip() for one in decision.translation.split(",") if one.strip()]
    shown = [f"{one} ({_EDITS[one]})" if one in _EDITS else one for one in edits]
    return ", ".join(shown) or "none: passed through unchanged"


def _lost(decision: Decision) -> list[tuple[str, str]]:
    """What the translation lost, and why."""
    codes = [one.removeprefix("lossy:") for one in decision.translation.split(",") if one.startswith("lossy:")]
    known = [(code, LOSSY[code]) for code in codes if code in LOSSY]
    return [("lost" if not place else "", f"{code}: {gap.what}, because {gap.why}")
            for place, (code, gap) in enumerate(known)]  # fmt: skip


def _media(decision: Decision) -> list[tuple[str, str]]:
    media = decision.media
    if media is None:
        return []
    seconds = None if media.audio_seconds is None else f"{figures.seconds(media.audio_seconds)} of audio"
    counts = [f"{amount} {unit}" for amount, unit in ((media.characters, "characters"), (media.images, "images"))
              if amount is not None]  # fmt: skip
    found = [*([] if seconds is None else [seconds]), *counts]
    return [("media", ", ".join(found))] if found else []


def _tools(decision: Decision) -> list[tuple[str, str]]:
    """What Stoker ran for the model; never what was asked or found."""
    if not decision.rounds and not decision.tools:
        return []
    how = f"called in {figures.counted(decision.rounds, 'round')}; tokens and times are of all rounds"
    rows = [("tools", how if decision.rounds else "the client had approved these calls")]
    for tool in decision.tools:
        failed = f", {tool.failed} failed" if tool.failed else ""
        cost = f", cost {tool.cost:.6g}" if tool.cost else ""
        size = f"{tool.bytes} bytes in {figures.seconds(tool.seconds)}{cost}"
        rows.append(("", f"{tool.name} ({tool.kind}): {figures.counted(tool.calls, 'call')}{failed}, {size}"))
    return rows


def _candidates(decision: Decision) -> list[tuple[str, str]]:
    if not decision.candidates:
        return [("candidates", f"none considered{f'; {decision.serve} used' if decision.serve else ''}")]
    rows = []
    for place, candidate in enumerate(decision.candidates):
        taken = _taken(decision, candidate.serve, is_first=place == 0)
        words = f"dropped: {in_words(candidate.dropped)}" if candidate.dropped else taken
        rows.append(("candidates" if place == 0 else "", f"{candidate.serve}: {words}"))
    return rows


def _taken(decision: Decision, serve: str, is_first: bool) -> str:
    if not decision.attempts:
        return "chosen, but not called"
    if not is_first:
        return "used"
    asked_for_a_model = decision.routed is None and decision.orchestrated is None and decision.model
    is_other_name = asked_for_a_model and decision.model != serve
    return f"used; '{decision.model}' is another name for it" if is_other_name else "used"


def _routed(decision: Decision) -> list[tuple[str, str]]:
    routed = decision.routed
    if routed is None:
        return []
    notes = f": {', '.join(routed.notes)}" if routed.notes else ""
    rows = [("task", f"{routed.task}, by {BY.get(routed.source, routed.source)}{notes}")]
    if risk := risk_in_words(routed.notes):
        rows.append(("risk", risk))
    rows += [("tiers" if place == 0 else "", why) for place, why in enumerate(routed.why)]
    rows += _tried(decision)
    if routed.tier:
        rows.append(("answered", f"{routed.tier}, checks: {routed.verify}"))
    if routed.graded:
        rows.append(("graded", routed.graded))
    return rows


def _tried(decision: Decision) -> list[tuple[str, str]]:
    rows = []
    for place, one in enumerate(decision.all_tried):
        found = f"; found: {', '.join(one.findings)}" if one.findings else ""
        again = f"; asked for a repair {figures.counted(one.repairs, 'time')}" if one.repairs else ""
        spent = "" if one.seconds is None else f" after {figures.seconds(one.seconds)}"
        cost = "" if one.cost is None else f", cost {one.cost:.6g}"
        words = f"{one.tier or one.serve}: {in_words(one.outcome)}{spent}{cost}{again}{found}"
        rows.append(("tried" if place == 0 else "", words))
    return rows


_WHY = {
    "caller": "the caller chose it", "configured": "as configured", "tools": "the request has tools",
    "format": "the request asks for a form that blocks cannot have", "endpoint": "the endpoint gives no chat answer",
}  # fmt: skip
"""Why an orchestrator answered by a policy; anything else is the class of the request."""


def _orchestrated(decision: Decision) -> list[tuple[str, str]]:
    record = decision.orchestrated
    if record is None:
        return []
    why = _WHY.get(record.why, f"class {record.why}")
    rows = [("orchestrator", f"{record.orchestrator}: {record.policy}, {why}")]
    if record.policy != "block_by_block":
        return rows
    kept = f" ({record.resumed} of them by an earlier request)" if record.resumed else ""
    found = ", ".join(f"{layer} {count}" for layer, count in sorted(record.failures.items()))
    discarded = f", {record.discarded} discarded" if record.discarded else ""
    rows.append(("blocks", f"{record.blocks} committed{kept}; failed: {found or 'none'}{discarded}"))
    asked = f"worker asked {figures.counted(record.generations, 'time')}"
    spent = f"{record.wasted_tokens} tokens wasted, {record.validator_tokens} for the validator"
    rows.append(("", f"{asked}; {spent}"))
    return rows


def _like_it(decision: Decision) -> list[tuple[str, str]]:
    if not decision.unrecorded:
        return []
    return [("", f"{decision.unrecorded} similar refusals before it were not recorded")]


def _after(value: float | None) -> str:
    return "unknown" if value is None else f"after {figures.seconds(value)}"


def _first_token(decision: Decision) -> str:
    if decision.ttft is None and decision.outcome == "served" and not decision.stream:
        return "not timed: the answer came whole"
    return _after(decision.ttft)


def _tokens(decision: Decision) -> str:
    if not decision.attempts:
        return "none: no model server was asked"
    if decision.input_tokens is None and decision.output_tokens is None:
        return "unknown: the model server reported no usage"
    parts = [
        f"{count} of them {what}"
        for count, what in (
            (decision.cached_tokens, "cached"),
            (decision.cache_write_tokens, "written to the cache"),
        )
        if count
    ]
    cached = f" ({', '.join(parts)})" if parts else ""
    said = f"{figures.number(decision.input_tokens)} in{cached}, {figures.number(decision.output_tokens)} out"
    if decision.tokens_estimated:
        said += ", estimated: the model server did not count them to the end"
    rate = tokens_per_second(decision)
    return said if rate is None else f"{said}, {rate:.1f} tokens/s after the first"


def _outcome(decision: Decision) -> str:
    words = OUTCOMES.get(decision.outcome, "unknown to this version")
    if decision.outcome == "upstream_failed" and not decision.attempts:
        words = "no model server was there to ask"
    said = f"{decision.outcome}: {words}"
    if decision.status:
        said += f"; status {decision.status}"
    return said + (f", because {in_words(decision.reason)}" if decision.reason else "")
