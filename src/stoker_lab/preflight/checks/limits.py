"""Is max_tokens heeded, said as `length`, and counted right?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from stoker.domain.answer import StopReason
from stoker_lab.preflight import wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    failed,
    passed,
    quoted,
    run_concurrently,
)
from stoker_lab.requests.client import ModelClient, ModelReply

LIMITS = (8, 16, 32)
HIGH = 512
"""Tokens of an answer that nothing should cut earlier."""
_ENOUGH = 4
SLACK = 2
"""Tokens over the limit that are let pass: some engines count an end token."""


class _Cut(NamedTuple):
    limit: int
    stream: bool
    reply: ModelReply

    @property
    def way(self) -> str:
        return f"max_tokens {self.limit}, {'streamed' if self.stream else 'not streamed'}"

    @property
    def counted(self) -> int | None:
        return self.reply.timing.tokens.output

    @property
    def with_thoughts(self) -> int | None:
        """Thoughts that are counted apart use up the limit, too."""
        return None if self.counted is None else self.counted + wire_flaws.tokens_apart(self.reply)

    @property
    def is_heeded(self) -> bool:
        """In the server's own count; its tokens may be of several words."""
        counted = self.counted
        return self.reply.answer.stop is StopReason.LENGTH and counted is not None and counted <= self.limit + SLACK

    @property
    def words(self) -> int:
        return len(self.reply.visible_text.split())


async def _limits(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. no more words than tokens allowed  2. no more tokens counted  3. what was cut says so  4. and counts so
    5. exactly so  6. a high limit is not lowered"""
    cases = [(limit, stream) for limit in LIMITS for stream in (False, True)]
    asks = [partial(ask, client, ctx, ctx.wording.long, stream=s, max_tokens=n, is_cut=True) for n, s in cases]
    cuts = [_Cut(n, s, reply) for (n, s), reply in zip(cases, await run_concurrently(ctx, asks), strict=True)]
    for cut in cuts:
        if cut.words > 1.5 * cut.limit + 4 and not cut.is_heeded:  # 1
            return failed("ignored", f"{cut.way}: {cut.words} words came: {quoted(cut.reply.visible_text)}")
    for cut in cuts:
        if (cut.counted or 0) > cut.limit + SLACK:  # 2
            is_same = (
                len({len(one.reply.visible_text) for one in cuts}) == 1
                and cut.reply.answer.stop is not StopReason.LENGTH
            )
            why = "ignored" if is_same and len(cut.reply.visible_text) > 8 * cut.limit else "counts"
            return failed(why, f"{cut.way}: {cut.counted} tokens are counted for {quoted(cut.reply.visible_text)}")
    surely = [one for one in cuts if _was_cut(one, cuts)]
    for cut in surely:
        if cut.reply.answer.stop is not StopReason.LENGTH:  # 3
            end, reason = quoted(cut.reply.visible_text[-30:]), cut.reply.answer.stop.value
            return failed("reason", f"{cut.way}: the answer was cut at {end}, but its finish reason is {reason}")
    low = [one for one in surely if one.with_thoughts is not None and one.with_thoughts < one.limit // 2]
    if len(low) > len(surely) // 2:  # 4
        return failed("counts", f"{low[0].way}: it was cut there, but only {low[0].counted} tokens are counted")
    cut_off = [one for one in cuts if one.reply.answer.stop is StopReason.LENGTH and one.counted is not None]
    if (by := always_off([(one.counted or 0) - one.limit for one in cut_off])) != 0:  # 5
        text = f"{cut_off[0].way}: {cut_off[0].counted} tokens are counted, and so {by:+} wherever an answer is cut"
        return failed("counts", text)
    high = min(HIGH, (ctx.facts.context or 4 * HIGH) // 2)
    beyond = {"ignore_eos": True} if ctx.facts.engine_name else {}
    one = _Cut(high, False, await ask(client, ctx, ctx.wording.long, max_tokens=high, is_cut=True, **beyond))
    is_sure = bool(ctx.facts.engine_name) or not ctx.facts.always_thinks  # clouds may leave thoughts out of all counts
    if is_sure and one.reply.answer.stop is StopReason.LENGTH and (one.with_thoughts or high) < high - SLACK:  # 6
        return failed("capped", f"{one.way}: the answer was cut after {one.counted} tokens")
    if not surely:
        return passed("answers ended before their limit: only that no limit was passed is proved")
    return passed(f"{len(surely)} answers cut at {', '.join(map(str, LIMITS))} tokens, each says length", n=len(surely))


def always_off(differences: Sequence[int]) -> int:
    """By how much all counts are off; 0: they are not, or not all alike, as those of engines that write in blocks."""
    found = set(differences)
    return found.pop() if len(found) == 1 and len(differences) >= _ENOUGH else 0


def _was_cut(cut: _Cut, cuts: list[_Cut]) -> bool:
    """With a higher limit the same question has a much longer answer."""
    most = max(
        (len(one.reply.visible_text) for one in cuts if one.limit > cut.limit and one.stream == cut.stream), default=0
    )
    return len(cut.reply.visible_text) < 0.7 * most


MAX_TOKENS = (
    PreflightCheck(
        "max-tokens",
        "max_tokens is heeded, the finish reason says length, the count fits",
        "answers that something cuts after 512 tokens or more, or where the model ends before; "
        "a wrong finish reason where the model ends before any limit",
        _limits,
        seconds=900.0,
    ),
)
