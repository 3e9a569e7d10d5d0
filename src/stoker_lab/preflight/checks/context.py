"""Is the whole prompt read, as far as promised and no farther?"""

from __future__ import annotations

import math
from functools import partial

from stoker_lab.preflight import filler, wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    chat_request,
    failed,
    is_rate_below,
    not_applicable,
    passed,
    quoted,
    run_concurrently,
)
from stoker_lab.requests.client import ModelClient

DEPTHS = (0.1, 0.5, 0.9)
MAX_NEEDLE = 16_384
"""Prompt tokens of the longest needle, where nothing else is asked for."""
_ROOM = 128
"""Tokens of the question, the facts and the answer."""
_UNEVEN = 0.01
"""The share of a long text by which its count may differ from what its parts cost."""
_PROBE = 12
"""Sentences of the texts by which a sentence is measured."""


async def per_sentence(client: ModelClient, ctx: CheckContext) -> tuple[float, float]:
    """(tokens of a sentence, tokens of everything else in a prompt), by the server's own count. Asked once."""
    if ctx.per_sentence is None:
        ctx.per_sentence = await _measured(client, ctx)
    return ctx.per_sentence


async def _measured(client: ModelClient, ctx: CheckContext) -> tuple[float, float]:
    dice = ctx.dice("measure")
    counts = []
    for size in (_PROBE, 3 * _PROBE):
        reply = await ask(client, ctx, " ".join(filler.sentences(dice, size)), max_tokens=1)
        counts.append(reply.timing.tokens.input)
    if counts[0] is None or counts[1] is None or counts[1] <= counts[0]:
        return 0.0, 0.0
    each_one = (counts[1] - counts[0]) / (2 * _PROBE)
    return each_one, counts[0] - _PROBE * each_one


def sizes(ctx: CheckContext) -> list[int]:
    """Prompt tokens of the texts that are asked about."""
    context = ctx.facts.context
    if ctx.needle_ctx:
        return sorted({ctx.needle_ctx // 2, ctx.needle_ctx})
    most = min(MAX_NEEDLE, int(0.95 * context) - _ROOM) if context else 2000
    wanted = {most // 2 if size == 0 else most if size < 0 else min(size, most) for size in ctx.wording.needles}
    return sorted(wanted)


async def _needle(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. the text fits  2. all of it is counted  3. the words are found, at each depth and at all"""
    wanted = sizes(ctx)
    context, dice, filling = ctx.facts.context, ctx.dice("needle"), ctx.filler_dice("needle")
    if context and wanted[-1] + _ROOM > context:  # 1
        return failed("small", f"{wanted[-1]:,} tokens were asked for, the context is {context:,}", context=context)
    tokens, rest = await per_sentence(client, ctx)
    if not tokens:
        return failed("uncounted", "usage.prompt_tokens is missing or constant: lengths cannot be checked")
    asks, words, at = [], [], []
    for size in wanted:
        for depth in DEPTHS:
            for _ in range(2):
                word, other = ctx.words(dice, 2)
                owner, stranger = dice.sample(ctx.wording.owners, 2)
                facts = [(depth, ctx.wording.fact.format(owner=owner, word=word)),
                         (dice.random(), ctx.wording.fact.format(owner=stranger, word=other))]  # fmt: skip
                count = max(4, math.ceil((size - rest) / tokens))
                text = filler.text_with_facts(filling, count, facts)
                asks.append(f"{text}\n\n{ctx.wording.question.format(owner=owner)}")
                words.append(word)
                at.append((size, depth))
    replies = await run_concurrently(ctx, [partial(ask, client, ctx, text, max_tokens=64) for text in asks])
    least = min((one.timing.tokens.input or 0) / size for one, (size, _) in zip(replies, at, strict=True))
    right = [word in one.text.lower() for word, one in zip(words, replies, strict=True)]
    numbers = {"passed": sum(right), "n": len(right), "tokens": wanted[-1], "counted": round(least, 3)}
    summary = f"{sum(right)} of {len(right)} found in texts of {', '.join(f'{size:,}' for size in wanted)} tokens"
    if least < 0.95:  # 2
        return failed("truncated", f"{summary}; only {least:.0%} of a prompt's tokens were counted", **numbers)
    for depth in DEPTHS:  # 3
        hits = [ok for ok, (_, deep) in zip(right, at, strict=True) if deep == depth]
        if is_rate_below(sum(hits), len(hits), 0.75):
            return failed("depth", f"{summary}; at {depth:.0%} depth {sum(hits)} of {len(hits)}", **numbers)
    for size in wanted:
        hits = [ok for ok, (long, _) in zip(right, at, strict=True) if long == size]
        if is_rate_below(sum(hits), len(hits), 0.75):
            return failed("depth", f"{summary}; of those with {size:,} tokens {sum(hits)}", **numbers)
    if is_rate_below(sum(right), len(right), 0.85):
        wrong = next(one.text for ok, one in zip(right, replies, strict=True) if not ok)
        return failed("lost", f"{summary}; one answer was {quoted(wrong)}", **numbers)
    return passed(summary, **numbers)


async def _over(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. near the limit is accepted  2. beyond it is refused with 4xx, in both dialects"""
    context = ctx.facts.context
    if context is None:
        return not_applicable("the serve does not report its context length")
    tokens, rest = await per_sentence(client, ctx)
    if not tokens:
        return failed("uncounted", "usage.prompt_tokens is missing or constant: lengths cannot be checked")
    dice, near = ctx.filler_dice("over"), ""
    if context <= MAX_NEEDLE:
        text = " ".join(filler.sentences(dice, int((0.93 * context - rest) / tokens)))
        reply = await client.ask(chat_request(ctx, text, max_tokens=4))
        if not reply.timing.is_ok:  # 1
            return failed("near", f"93 % of the context was not accepted: {reply.timing.failure}")
        near = f"{reply.timing.tokens.input or 0:,} of {context:,} tokens accepted, "
    text = " ".join(filler.sentences(dice, int(1.15 * context / tokens) + 8))
    answers = {"chat": await client.ask(chat_request(ctx, text, max_tokens=4))}
    if ctx.messages is not None:
        turns = [{"role": "user", "content": text}]
        answers["messages"] = await ctx.messages.ask({"messages": turns, "max_tokens": 4})
    for dialect, reply in answers.items():  # 2
        if reply.timing.is_ok:
            counted = reply.timing.tokens.input
            return failed("accepted", f"{dialect}: a prompt beyond the context was answered ({counted} tokens counted)")
        if not 400 <= reply.timing.status < 500:
            return failed("status", f"{dialect}: a prompt beyond the context ends with {reply.timing.failure}, not 4xx")
    return passed(f"{near}beyond it refused in {' and '.join(answers)}")


async def _long(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. a text again and again costs the same each time, in a long prompt too: tokenizers do not care how much stands
    before  2. answers to short and to long prompts bear the same name"""
    dice = ctx.dice("long")
    tokens, rest = await per_sentence(client, ctx)
    text = " ".join(filler.sentences(dice, _PROBE))
    most = sizes(ctx)[-1]
    times = int((most - rest) / (_PROBE * tokens)) if tokens else 0
    if times < 3:
        return not_applicable("its context is too short, or its prompts are not counted")
    once, twice, long = [await ask(client, ctx, " ".join([text] * n), max_tokens=1) for n in (1, 2, times)]
    names = {one: wire_flaws.named_models(reply) for one, reply in (("short", twice), ("long", long))}
    if names["short"] and names["long"] and names["short"] != names["long"]:  # 2
        return failed("other", f"answers to long prompts are from {names['long'][0]!r}, to short ones from "
                      f"{names['short'][0]!r}")  # fmt: skip
    first, second, counted = (one.timing.tokens.input or 0 for one in (once, twice, long))
    wanted = first + (times - 1) * (second - first)
    if abs(counted - wanted) > max(_PROBE, _UNEVEN * wanted):  # 1
        said = f"a text of {second - first} tokens {times} times is counted as {counted:,} tokens, not {wanted:,}"
        return failed("counts", said, tokens=counted)
    return passed(f"{counted:,} tokens, counted like short prompts", tokens=counted)


CONTEXT = (
    PreflightCheck(
        "long-prompts",
        "long prompts are counted like short ones, and answered under the same name",
        "another model with the same tokenizer and name (needle does, if that model finds fewer words); "
        "lengths over those of needle",
        _long,
        seconds=900.0,
    ),
    PreflightCheck(
        "needle",
        "words hidden in long texts are found, and the whole text is counted",
        "lengths over --needle-ctx (16,384 tokens by itself); words the model overlooks now and then",
        _needle,
        seconds=1800.0,
    ),
    PreflightCheck(
        "over-context",
        "near the limit accepted, beyond it refused",
        "a limit that the serve does not report; one that holds for long answers only",
        _over,
        seconds=900.0,
    ),
)
