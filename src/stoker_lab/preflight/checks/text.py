"""Does it still write? Words given back, whole prose, an end, and nothing that a client must not see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from stoker.domain.answer import StopReason
from stoker_lab.preflight import text_damage, wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    chat_request,
    failed,
    is_rate_below,
    passed,
    quoted,
    run_concurrently,
)
from stoker_lab.requests.client import ModelClient, ModelReply

ECHOES = 6
_SHORT = 12
"""Tokens within which a model that thinks is still thinking."""
_SPARE = 8
"""Tokens of marks around thoughts that are empty, and of the end."""
_COPIED = 24
"""Characters of a thought that no answer to the question has by chance."""
_SAME = 12
"""How many characters identify a thought."""


async def _echo(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """Random words, several at a time: how many come back whole."""
    dice = ctx.dice("echo")
    wanted = [" ".join(ctx.words(dice, ctx.wording.echo_words)) for _ in range(ECHOES)]
    asked = [ctx.wording.echo.format(words=text) for text in wanted]
    replies = await run_concurrently(ctx, [partial(ask, client, ctx, text) for text in asked])
    right = sum(text in " ".join(one.text.split()) for text, one in zip(wanted, replies, strict=True))
    numbers = {"passed": right, "n": len(wanted)}
    if is_rate_below(right, len(wanted), 0.8):
        worst = next(one.text for text, one in zip(wanted, replies, strict=True) if text not in one.text)
        return failed("wrong", f"{right} of {len(wanted)} came back whole; one was {quoted(worst)}", **numbers)
    return passed(f"{right} of {len(wanted)} came back whole", **numbers)


async def _corruption(client: ModelClient, ctx: CheckContext) -> CheckResult:
    replies = await run_concurrently(ctx, [partial(ask, client, ctx, text) for text in ctx.wording.prose])
    for one in replies:
        kind, sentence = text_damage.damage(one.text)
        if kind:
            return failed(kind, f"{sentence}: {quoted(one.text)}", n=len(replies))
    letters = sum(len(one.text) for one in replies)
    return passed(f"{len(replies)} answers, {letters:,} characters, no sign of damage", n=len(replies))


async def _ends(client: ModelClient, ctx: CheckContext) -> CheckResult:
    asked = [partial(ask, client, ctx, text, stream=bool(at % 2)) for at, text in enumerate(ctx.wording.brief)]
    replies = await run_concurrently(ctx, asked)
    ended = sum(one.answer.stop is StopReason.END for one in replies)
    numbers = {"passed": ended, "n": len(replies)}
    if ended < 0.95 * len(replies):
        other = next(one for one in replies if one.answer.stop is not StopReason.END)
        ran = all(one.timing.tokens.output in (None, ctx.wording.limit) for one in replies
                  if one.answer.stop is not StopReason.END)  # fmt: skip
        text = f"{ended} of {len(replies)} short answers ended by themselves; one ended by {other.answer.stop.value}"
        return failed("runs-on" if ran else "reason", text, **numbers)
    return passed(f"{ended} of {len(replies)} short answers ended by themselves", **numbers)


async def _special(client: ModelClient, ctx: CheckContext) -> CheckResult:
    asked = (*ctx.wording.prose[:3], *ctx.wording.brief[:3])
    both = [partial(ask, client, ctx, text, stream=stream) for text in asked for stream in (False, True)]
    replies = await run_concurrently(ctx, both)
    for one in replies:
        if (found := text_damage.SPECIAL.search(one.text)) is not None:
            way = "streamed" if one.frames else "not streamed"
            return failed("leak", f"{found.group(0)} in an answer that was {way}", n=len(replies))
    return passed(f"none in {len(replies)} answers, half of them streamed", n=len(replies))


async def _thinking(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. no tags in what is said  2. thoughts in a stream and not, and before the text  3. none that nobody sees
    4. a model that thinks: off is off, on is on  5. cut while thinking, says nothing  6. thoughts are not said again"""
    question = ctx.wording.brief[1]

    async def both(**fields: Any) -> list[ModelReply]:
        return await run_concurrently(
            ctx, [partial(ask, client, ctx, question, stream=s, **fields) for s in (False, True)]
        )

    off = await both()
    if (found := _no_tags(off) or _misplaced(off) or await _unseen(client, ctx, off)) is not None:  # 1, 2, 3
        return found
    if not ctx.facts.thinks:
        return passed("it does not think, and no tag is in its answers")
    on = await both(chat_template_kwargs={"enable_thinking": True}, max_tokens=4 * ctx.wording.limit)
    cut = await both(chat_template_kwargs={"enable_thinking": True}, max_tokens=12)
    if (found := _no_tags([*on, *cut]) or _misplaced(on)) is not None:  # 1, 2
        return found
    if any(not one.thinking for one in on):  # 4
        return failed("lost", "asked to think, its thoughts are not in the field for them")
    if ctx.facts.has_thinking_switch and any(one.thinking for one in off):
        return failed("always", "asked not to think, it thinks")
    if any(_is_dumped(one, on[0]) for one in cut):  # 5
        return failed("dumped", "an answer that ended within its thoughts shows them as text")
    if any(is_copied(one.thinking, one.text) for one in (*on, *off)):  # 6
        return failed("copied", f"the answer repeats its thoughts: {quoted(on[0].text)}")
    switch = ", and off is off" if ctx.facts.has_thinking_switch else "; it has no switch for them"
    return passed(f"thoughts are in their own field, streamed and not{switch}")


def _misplaced(replies: Sequence[ModelReply]) -> CheckResult | None:
    """Thoughts after the text, or in one of two ways to ask alone."""
    whole, flow = replies
    if (found := wire_flaws.order_flaw(flow))[0]:
        return failed(*found)
    if bool(whole.thinking.strip()) != bool(flow.thinking.strip()):
        lacks = "a stream" if whole.thinking.strip() else "an answer that is not streamed"
        return failed("lost", f"thoughts are missing in {lacks}, though the same question has them otherwise")
    return None


async def _unseen(client: ModelClient, ctx: CheckContext, off: Sequence[ModelReply]) -> CheckResult | None:
    """1. tokens counted as thoughts  2. an answer cut before any text  3. many more tokens where thoughts are wanted,
    and not a word more."""
    if any(one.thinking.strip() for one in off):
        return None
    hidden_tokens = max(wire_flaws.reasoning_tokens(one) for one in off)
    if hidden_tokens > _SPARE:  # 1
        return failed("lost", f"{hidden_tokens} tokens of thoughts are counted, and none is shown")
    on = await client.ask(chat_request(ctx, ctx.wording.brief[1], chat_template_kwargs={"enable_thinking": True}))
    cut = await ask(client, ctx, ctx.wording.brief[1], max_tokens=_SHORT, is_cut=True)
    if not cut.visible_text.strip() and not cut.calls and (cut.timing.tokens.output or 0) >= _SHORT // 2:  # 2
        return failed("lost", f"{cut.timing.tokens.output} tokens are counted for an answer without a word")
    wanted, usual = on.timing.tokens.output or 0, off[0].timing.tokens.output or 0
    grown = len(on.visible_text.encode()) - len(off[0].visible_text.encode())
    if on.timing.is_ok and not on.thinking and wanted - usual > max(_SPARE, grown):  # 3
        return failed("lost", f"asked to think, it writes {wanted} tokens in place of {usual}, and shows no thoughts")
    return None


def is_copied(thought: str, text: str) -> bool:
    """The whole thought stands in the text, and is too long for an answer that was thought in the same words."""
    thought, text = " ".join(thought.split()), " ".join(text.split())
    return len(thought) >= _COPIED and thought in text and thought != text


def _is_dumped(cut: ModelReply, on: ModelReply) -> bool:
    """Its text is the beginning of the thoughts; a model that thinks shortly has got beyond them."""
    text = cut.text.strip()
    begins = on.thinking.strip().startswith(text) or text_damage.common_prefix(text, on.thinking.strip()) >= _SAME
    return bool(text) and cut.answer.stop is StopReason.LENGTH and not cut.thinking.strip() and begins


def _no_tags(replies: list[ModelReply]) -> CheckResult | None:
    for one in replies:
        if (found := text_damage.TAGS.search(one.text)) is not None:
            return failed("tag", f"{found.group(0)} in the text of an answer: {quoted(one.text)}")
    return None


TEXT = (
    PreflightCheck(
        "echo",
        "random words come back as they were given",
        "texts that are right word by word and mean something else",
        _echo,
    ),
    PreflightCheck(
        "corruption",
        "eight answers of prose without a sign of damage",
        "well-formed nonsense; damage that comes less than once in eight answers",
        _corruption,
    ),
    PreflightCheck(
        "eos",
        "twenty short answers end by themselves",
        "an end that is missed in long answers only",
        _ends,
    ),
    PreflightCheck(
        "special-tokens",
        "no special token in an answer",
        "unknown special tokens; special tokens in thoughts",
        _special,
    ),
    PreflightCheck(
        "thinking",
        "thoughts stay out of the text",
        "thoughts without tags in the text of a model that is not known to think; lost thoughts of a few tokens",
        _thinking,
    ),
)
