"""Are log probabilities there, and can they be right? By what every model's are, whatever it writes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoker_lab.preflight import wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    chat_request,
    failed,
    not_applicable,
    passed,
    quoted,
)
from stoker_lab.preflight.facts import REFUSALS
from stoker_lab.preflight.wire_flaws import NONE, Flaw
from stoker_lab.requests.client import ModelClient, ModelReply

TOKENS, ALTERNATIVES = 24, 5
_FIELDS: Mapping[str, Any] = {"max_tokens": TOKENS, "is_cut": True, "logprobs": True, "top_logprobs": ALTERNATIVES}
_SAME = 0.02
"""By how much two log probabilities of one token may differ: they are written with few digits."""
_OVER = 1.02
"""The sum of probabilities above which they are none."""
_BELOW = 0.3
"""By how much the likeliest token may surpass the one that was taken at temperature 0."""
_SURE = 0.01
"""Log probabilities nearer to 0 than this say only that the model is sure."""


class TokenLogprob(NamedTuple):
    text: str
    """What the token writes."""
    key: str
    """By which the token is known among the alternatives."""
    logprob: float
    alternatives: Mapping[str, float]


async def _logprobs(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. refused, or an engine that may not know them: not judged  2. there, streamed and not  3. each one possible"""
    question = ctx.wording.prose[0]
    whole = await client.ask(chat_request(ctx, question, **_FIELDS))
    if whole.timing.status in REFUSALS:  # 1
        return not_applicable(f"it refuses log probabilities: {whole.timing.status} {whole.error_message[:120]}")
    whole = whole if whole.timing.is_ok else await ask(client, ctx, question, **_FIELDS)
    flow = await ask(client, ctx, question, stream=True, **_FIELDS)
    if not any(map(has_logprobs, (whole, flow))) and not ctx.facts.engine_name:  # 1
        return not_applicable("log probabilities that are asked for do not come: this engine may have none")
    for way, one in (("not streamed", whole), ("streamed", flow)):
        if one.text and not has_logprobs(one):  # 2: of thoughts alone some engines give none
            return failed("missing", f"{way}: log probabilities were asked for, and none came")
        why, sentence = logprob_flaw(one)  # 3
        if why:
            return failed(why, f"{way}: {sentence}")
    count = len(entries(whole))
    if not count:
        return not_applicable(f"within {TOKENS} tokens it writes thoughts alone, without log probabilities")
    return passed(f"{count} tokens, each with the likeliest first, streamed and not", n=count)


def has_logprobs(reply: ModelReply) -> bool:
    return bool(entries(reply))


def entries(reply: ModelReply) -> list[Any]:
    found: list[Any] = []
    for document in wire_flaws.documents(reply):
        for choice in document.get("choices") or ():
            logprobs = choice.get("logprobs") if isinstance(choice, dict) else None
            content = logprobs.get("content") if isinstance(logprobs, dict) else None
            found += content if isinstance(content, list) else []
    return found


def logprob_flaw(reply: ModelReply) -> Flaw:
    """1. numbers, none above 0  2. alternatives for most tokens  3. the token's own entry among them agrees
    4. probabilities of one place are at most 1 together  5. at temperature 0 the likeliest is taken
    6. not the same everywhere  7. their tokens are the text, and as many as are counted
    """
    raw = entries(reply)
    if not raw:
        return NONE
    read = [one for one in map(_read, raw) if one is not None]
    if len(read) < len(raw):  # 1
        return "form", f"{len(raw) - len(read)} of {len(raw)} tokens have no number as log probability"
    for one in read:
        if above := [value for value in (one.logprob, *one.alternatives.values()) if value > _SAME]:
            return "positive", f"the log probability of {one.text!r} or of an alternative is {above[0]:.3f}, above 0"
    bare = [one for one in read if not one.alternatives]
    if len(bare) > len(read) / 2:  # 2
        return "alternatives", f"{len(bare)} of {len(read)} tokens have no alternatives: {ALTERNATIVES} were asked for"
    for judge in (_disagrees, _exceeds, _is_not_likeliest):  # 3, 4, 5
        odd = [sentence for one in read if (sentence := judge(one))]
        if len(odd) > len(read) / 2 or (judge is not _is_not_likeliest and len(odd) > 2):
            return "values", f"{odd[0]}, and so in {len(odd)} of {len(read)} places"
    values = [one.logprob for one in read]
    if len(read) >= 8 and len(set(values)) == 1 and values[0] < -_SURE:  # 6
        return "values", f"all {len(read)} tokens have the log probability {values[0]:.3f}"
    return _other_text(reply, read)  # 7


def _read(entry: Any) -> TokenLogprob | None:
    if (
        not isinstance(entry, Mapping)
        or not isinstance(entry.get("token"), str)
        or not _is_number(entry.get("logprob"))
    ):
        return None
    alternatives: dict[str, float] = {}
    for other in entry.get("top_logprobs") or ():
        if (
            not isinstance(other, Mapping)
            or not isinstance(other.get("token"), str)
            or not _is_number(other.get("logprob"))
        ):
            return None
        alternatives[_key(other)] = float(other["logprob"])
    return TokenLogprob(_written(entry), _key(entry), float(entry["logprob"]), alternatives)


def _key(entry: Mapping[str, Any]) -> str:
    """Several tokens may be written alike: by the id, where the engine gives it."""
    return str(entry.get("id", entry["token"]))


def _written(entry: Mapping[str, Any]) -> str:
    """Some engines name a token as its vocabulary does, with a mark for the space."""
    raw = entry.get("bytes")
    if isinstance(raw, list) and raw and all(isinstance(one, int) and 0 <= one < 256 for one in raw):
        return bytes(raw).decode("utf-8", "replace")
    return str(entry["token"]).replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _disagrees(one: TokenLogprob) -> str:
    other = one.alternatives.get(one.key)
    if other is None or abs(other - one.logprob) <= _SAME + 0.01 * abs(other):
        return ""
    return f"{one.text!r} has the log probability {one.logprob:.3f}, and {other:.3f} among its own alternatives"


def _exceeds(one: TokenLogprob) -> str:
    total = sum(math.exp(value) for value in ({one.key: one.logprob} | dict(one.alternatives)).values())
    return f"the probabilities of {len(one.alternatives)} alternatives make {total:.2f}" if total > _OVER else ""


def _is_not_likeliest(one: TokenLogprob) -> str:
    most = max(one.alternatives.values(), default=one.logprob)
    if most - one.logprob <= _BELOW:
        return ""
    return f"at temperature 0 {one.text!r} was taken with {one.logprob:.3f}, though another has {most:.3f}"


def _other_text(reply: ModelReply, read: Sequence[TokenLogprob]) -> Flaw:
    """Only of plain text: a thought or a letter beyond ASCII may be cut into tokens that say nothing by themselves."""
    counted = reply.timing.tokens.output or 0
    if len(read) < counted / 2:
        return "few", f"log probabilities of {len(read)} tokens, {counted} are counted"
    text, written = "".join(reply.text.split()), "".join("".join(one.text for one in read).split())
    if reply.thinking or reply.calls or not text.isascii() or text in written:
        return NONE
    return (
        "text",
        f"the tokens that have log probabilities write {quoted(written, 40)}, the answer is {quoted(text, 40)}",
    )


LOGPROBS = (
    PreflightCheck(
        "logprobs",
        "log probabilities come where they are asked for, add up, and are of the tokens written",
        "probabilities that are wrong and agree with each other; those of tool calls and of other dialects; "
        "missing ones of an engine that is not known to have them",
        _logprobs,
    ),
)
