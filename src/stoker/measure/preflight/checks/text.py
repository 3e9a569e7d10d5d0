"""Does it still write? Words given back, whole prose, an end, and nothing that a client must not see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from stoker.domain.answer import Stop
from stoker.measure.preflight import text_damage, wire_flaws
from stoker.measure.preflight.check import (
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
from stoker.measure.requests.client import ModelClient, ModelReply

ECHOES = 6
_SHORT = 12
"""Tokens within which a model that thinks is still thinking."""
_SPARE = 8
"""Tokens of marks around thoughts that are empty, and of the end."""
_SAME = 12
"""Characters by which thoughts are known again."""


async def _echo(talk: ModelClient, about: CheckContext) -> CheckResult:
    """Random words, several at a time: how many come back whole."""
    dice = about.dice("echo")
    wanted = [" ".join(about.words(dice, about.wording.echo_words)) for _ in range(ECHOES)]
    asked = [about.wording.echo.format(words=text) for text in wanted]
    heard = await run_concurrently(about, [partial(ask, talk, about, text) for text in asked])
    right = sum(text in " ".join(one.text.split()) for text, one in zip(wanted, heard, strict=True))
    numbers = {"passed": right, "n": len(wanted)}
    if is_rate_below(right, len(wanted), 0.8):
        worst = next(one.text for text, one in zip(wanted, heard, strict=True) if text not in one.text)
        return failed("wrong", f"{right} of {len(wanted)} came back whole; one was {quoted(worst)}", **numbers)
    return passed(f"{right} of {len(wanted)} came back whole", **numbers)


async def _corruption(talk: ModelClient, about: CheckContext) -> CheckResult:
    heard = await run_concurrently(about, [partial(ask, talk, about, text) for text in about.wording.prose])
    for one in heard:
        kind, sentence = text_damage.damage(one.text)
        if kind:
            return failed(kind, f"{sentence}: {quoted(one.text)}", n=len(heard))
    letters = sum(len(one.text) for one in heard)
    return passed(f"{len(heard)} answers, {letters:,} characters, no sign of damage", n=len(heard))


async def _ends(talk: ModelClient, about: CheckContext) -> CheckResult:
    asked = [partial(ask, talk, about, text, stream=bool(at % 2)) for at, text in enumerate(about.wording.brief)]
    heard = await run_concurrently(about, asked)
    ended = sum(one.answer.stop is Stop.END for one in heard)
    numbers = {"passed": ended, "n": len(heard)}
    if ended < 0.95 * len(heard):
        other = next(one for one in heard if one.answer.stop is not Stop.END)
        ran = all(one.timed.tokens.output in (None, about.wording.limit) for one in heard
                  if one.answer.stop is not Stop.END)  # fmt: skip
        text = f"{ended} of {len(heard)} short answers ended by themselves; one ended by {other.answer.stop.value}"
        return failed("runs-on" if ran else "reason", text, **numbers)
    return passed(f"{ended} of {len(heard)} short answers ended by themselves", **numbers)


async def _special(talk: ModelClient, about: CheckContext) -> CheckResult:
    """Streamed and not."""
    asked = (*about.wording.prose[:3], *about.wording.brief[:3])
    both = [partial(ask, talk, about, text, stream=stream) for text in asked for stream in (False, True)]
    heard = await run_concurrently(about, both)
    for one in heard:
        if (found := text_damage.SPECIAL.search(one.text)) is not None:
            way = "streamed" if one.frames else "not streamed"
            return failed("leak", f"{found.group(0)} in an answer that was {way}", n=len(heard))
    return passed(f"none in {len(heard)} answers, half of them streamed", n=len(heard))


async def _thinking(talk: ModelClient, about: CheckContext) -> CheckResult:
    """1. no tags in what is said  2. thoughts in a stream and not, and before the text  3. none that nobody sees
    4. a model that thinks: off is off, on is on  5. cut while thinking, says nothing"""
    question = about.wording.brief[1]

    async def both(**fields: Any) -> list[ModelReply]:
        return await run_concurrently(
            about, [partial(ask, talk, about, question, stream=s, **fields) for s in (False, True)]
        )

    off = await both()
    if (found := _no_tags(off) or _misplaced(off) or await _unseen(talk, about, off)) is not None:  # 1, 2, 3
        return found
    if not about.facts.thinks:
        return passed("it does not think, and no tag is in its answers")
    on = await both(chat_template_kwargs={"enable_thinking": True}, max_tokens=4 * about.wording.limit)
    cut = await both(chat_template_kwargs={"enable_thinking": True}, max_tokens=12)
    if (found := _no_tags([*on, *cut]) or _misplaced(on)) is not None:  # 1, 2
        return found
    if any(not one.thinking for one in on):  # 4
        return failed("lost", "asked to think, its thoughts are not in the field for them")
    if about.facts.switches and any(one.thinking for one in off):
        return failed("always", "asked not to think, it thinks")
    if any(_is_dumped(one, on[0]) for one in cut):  # 5
        return failed("dumped", "an answer that ended within its thoughts shows them as text")
    switch = ", and off is off" if about.facts.switches else "; it has no switch for them"
    return passed(f"thoughts are in their own field, streamed and not{switch}")


def _misplaced(heard: Sequence[ModelReply]) -> CheckResult | None:
    """Thoughts after the text, or in one of two ways to ask alone."""
    whole, flow = heard
    if (found := wire_flaws.order_flaw(flow))[0]:
        return failed(*found)
    if bool(whole.thinking.strip()) != bool(flow.thinking.strip()):
        lacks = "a stream" if whole.thinking.strip() else "an answer that is not streamed"
        return failed("lost", f"thoughts are missing in {lacks}, though the same question has them otherwise")
    return None


async def _unseen(talk: ModelClient, about: CheckContext, off: Sequence[ModelReply]) -> CheckResult | None:
    """1. tokens counted as thoughts  2. an answer cut before any text  3. many more tokens where thoughts are wanted,
    and not a word more."""
    if any(one.thinking.strip() for one in off):
        return None
    told = max(wire_flaws.reasoning_tokens(one) for one in off)
    if told > _SPARE:  # 1
        return failed("lost", f"{told} tokens of thoughts are counted, and none is shown")
    on = await talk.ask(chat_request(about, about.wording.brief[1], chat_template_kwargs={"enable_thinking": True}))
    cut = await ask(talk, about, about.wording.brief[1], max_tokens=_SHORT, is_cut=True)
    if not cut.shown.strip() and not cut.calls and (cut.timed.tokens.output or 0) >= _SHORT // 2:  # 2
        return failed("lost", f"{cut.timed.tokens.output} tokens are counted for an answer without a word")
    wanted, usual = on.timed.tokens.output or 0, off[0].timed.tokens.output or 0
    grown = len(on.shown.encode()) - len(off[0].shown.encode())
    if on.timed.is_ok and not on.thinking and wanted - usual > max(_SPARE, grown):  # 3
        return failed("lost", f"asked to think, it writes {wanted} tokens in place of {usual}, and shows no thoughts")
    return None


def _is_dumped(cut: ModelReply, on: ModelReply) -> bool:
    """Its text is the beginning of the thoughts; a model that thinks shortly has got beyond them."""
    text = cut.text.strip()
    begins = on.thinking.strip().startswith(text) or text_damage.common_prefix(text, on.thinking.strip()) >= _SAME
    return bool(text) and cut.answer.stop is Stop.LENGTH and not cut.thinking.strip() and begins


def _no_tags(heard: list[ModelReply]) -> CheckResult | None:
    for one in heard:
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
        "tokens with names that nobody knows; those in thoughts",
        _special,
    ),
    PreflightCheck(
        "thinking",
        "thoughts stay out of the text",
        "thoughts without tags in the text of a model that is not known to think; lost thoughts of a few tokens",
        _thinking,
    ),
)
