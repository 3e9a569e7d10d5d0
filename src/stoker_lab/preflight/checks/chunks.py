"""Does a stream carry what the whole answer has: no piece lost, doubled, out of order, no space eaten? Thoughts too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from stoker.domain.answer import StopReason
from stoker_lab.preflight import text_damage, wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    answers_vary,
    ask,
    failed,
    passed,
    quoted,
)
from stoker_lab.requests.client import ModelClient, ModelReply

LONG, BRIEF = 96, 640
"""Tokens: of a text, and of a short answer with the thoughts before it."""
_MIN_CHARACTERS = 12
"""Characters from which a difference says something."""


async def _chunks(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """Asks one request at a time. A difference between streamed and whole answer counts only if its form is damage
    (`damage`) and it recurs."""
    compared = 0
    for question, limit, fields in _asked(ctx):
        whole = await ask(client, ctx, question, max_tokens=limit, is_cut=True, **fields)
        for _ in range(2):
            flow = await ask(client, ctx, question, stream=True, max_tokens=limit, is_cut=True, **fields)
            if (order := wire_flaws.order_flaw(flow))[0]:
                return failed(*order)
            why, sentence = _difference(flow, whole)
            if why:
                again = await ask(client, ctx, question, max_tokens=limit, is_cut=True, **fields)
                if _difference(flow, again)[0]:
                    return failed(why, sentence)
            compared += (flow.text.strip(), flow.thinking.strip()) == (whole.text.strip(), whole.thinking.strip())
    n = 2 * len(_asked(ctx))
    if not compared:
        return passed("no damage seen, but answers vary too much to compare pieces")
    return passed(f"{compared} of {n} streams carry exactly what the whole answer has", n=n)


def _asked(ctx: CheckContext) -> list[tuple[str, int, Mapping[str, Any]]]:
    found: list[tuple[str, int, Mapping[str, Any]]] = [
        (ctx.wording.prose[0], LONG, {}), (ctx.wording.long, LONG, {}),
    ]  # fmt: skip
    if ctx.facts.thinks:
        found.append((ctx.wording.brief[1], BRIEF, {"chat_template_kwargs": {"enable_thinking": True}}))
    return found


def _difference(flow: ModelReply, whole: ModelReply) -> tuple[str, str]:
    """(what happened to the text or to the thoughts, a sentence that shows the place)"""
    has_ended = flow.answer.stop is whole.answer.stop is StopReason.END
    is_equal = has_ended and flow.timing.tokens.output == whole.timing.tokens.output
    for what, one, other in (("text", flow.text, whole.text), ("thoughts", flow.thinking, whole.thinking)):
        if kind := damage(one, other) or ("lost" if is_equal and _lacks_end(one, other) else ""):
            at = max(0, text_damage.common_prefix(one, other) - 20)
            return kind, f"{what} in a stream: {quoted(one[at:], 50)}, not streamed {quoted(other[at:], 50)}"
    return "", ""


def _lacks_end(flow: str, whole: str) -> bool:
    return len(flow.strip()) < len(whole.strip()) and whole.strip().startswith(flow.strip())


def damage(flow: str, whole: str) -> str:
    """What happened to a text on its way, if the form of the difference says so; empty: nothing, or another answer.

    Two honest answers part at one place and go on differently. Damage leaves the rest as it was.
    """
    flow, whole = flow.strip(), whole.strip()
    if flow == whole or min(len(flow), len(whole)) < _MIN_CHARACTERS:
        return ""
    one, other = "".join(flow.split()), "".join(whole.split())
    if one == other:
        return "spaces"
    if other.startswith(one) or one.startswith(other):
        return ""  # one ended earlier
    if _is_within(one, other):
        return "lost"
    if _is_within(other, one):
        return "doubled"
    return "order" if Counter(one) == Counter(other) else ""


def _is_within(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(sign in rest for sign in part)


CHUNKS = (
    PreflightCheck(
        "chunks",
        "a stream carries what the whole answer has, thoughts too: nothing lost, doubled or out of order",
        "damage that comes less than once in the six streams; damage of an engine whose answers vary at temperature 0",
        _chunks,
        answers_vary,
    ),
)
