"""Does every text part of a message reach the model? By what it costs, and by what the model knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    chat_request,
    failed,
    not_applicable,
    passed,
    run_concurrently,
)
from stoker_lab.preflight.facts import REFUSALS
from stoker_lab.requests.client import ModelClient

_PARTS = (
    "First part here, about boats and bridges.",
    "Second part here, about castles, clocks and coats.",
    "Third part here, about gardens, gates and a green door.",
)
_TRIES = 2


def _message(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]


async def _parts(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. parts are taken at all  2. each part costs tokens, as it does in one text  3. what a part
    says is known, where it is known from one text"""
    first = await client.ask(chat_request(ctx, _message(_PARTS[:1]), max_tokens=1))
    if first.timing.status in REFUSALS:  # 1
        return not_applicable(f"it refuses text in parts: {first.timing.status} {first.error_message[:120]}")
    counts = [await _count(client, ctx, _message(_PARTS[:n])) for n in (1, 2, 3)]
    plain = [await _count(client, ctx, " ".join(_PARTS[:n])) for n in (1, 2, 3)]
    for at in (1, 2):  # 2
        if plain[at] > plain[at - 1] and counts[at] <= counts[at - 1]:
            text = f"part {at + 1} of a message costs nothing: {counts[at - 1]} tokens without it, {counts[at]} with it"
            return failed("dropped", text, tokens=counts[at])
    numbers = {"n": 0, "passed": 0}
    for at, place in enumerate(("first", "last")):  # 3
        found, known = await _fact_found(client, ctx, at)
        numbers = {"n": numbers["n"] + known, "passed": numbers["passed"] + found}
        if known == _TRIES and not found:
            text = f"what the {place} part of a message says is unknown to the model in {known} of {known} answers"
            return failed("dropped", text, **numbers)
    known_facts = f"; {numbers['passed']} of {numbers['n']} facts in a part were known" if numbers["n"] else ""
    return passed(f"1, 2 and 3 parts cost {counts[0]}, {counts[1]} and {counts[2]} tokens{known_facts}", **numbers)


async def _count(client: ModelClient, ctx: CheckContext, asked: str | list[dict[str, Any]]) -> int:
    return (await ask(client, ctx, asked, max_tokens=1)).timing.tokens.input or 0


async def _fact_found(client: ModelClient, ctx: CheckContext, place: int) -> tuple[int, int]:
    """(how often a fact in that part of two is known, of how many that are known where all is one text)"""
    dice = ctx.dice(f"parts {place}")
    words = ctx.words(dice, _TRIES)
    asked: list[str | list[dict[str, Any]]] = []
    for word in words:
        owner = dice.choice(ctx.wording.owners)
        texts = [ctx.wording.question.format(owner=owner)]
        texts.insert(place, ctx.wording.fact.format(owner=owner, word=word))
        asked += ["\n".join(texts), _message(texts)]
    replies = await run_concurrently(ctx, [partial(ask, client, ctx, text, max_tokens=64) for text in asked])
    pairs = list(zip(words, replies[::2], replies[1::2], strict=True))
    known = [(word, split) for word, whole, split in pairs if word in whole.text.lower()]
    return sum(word in split.text.lower() for word, split in known), len(known)


PARTS = (
    PreflightCheck(
        "parts",
        "every text part of a message reaches the model",
        "parts of system turns and of the history; a part that is counted, then dropped, if the model finds no facts",
        _parts,
    ),
)
