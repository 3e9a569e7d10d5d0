"""Does a stream come as it is written, or is it held back until it is whole?"""

from __future__ import annotations

import asyncio

from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    RequestFailed,
    ask,
    failed,
    not_applicable,
    passed,
)
from stoker_lab.requests.client import ModelClient, ModelReply

FEW, MANY = 8, 128
"""Tokens of two answers to one question; of a fast server the longer one has more."""
MORE, FAST = 384, 0.1
"""Tokens, and seconds of writing below which a server is fast."""
TRIES, MAX_TRIES = 9, 60
MIN_HELD_SECONDS = 2.0
"""Seconds of writing that have to be held back, all streams together. A machine that is busy makes bursts of streams
that take some hundredths of a second, again and again."""
MIN_LONGER = 0.015
"""Seconds that the longer answer has to take more; less cannot be measured."""
TICK = 0.002
AWAKE, MIN_AWAKE = 0.25, 5
"""Of the writing time, how long this program may have been kept from running; streams in which it was not, at least."""
HELD = 0.25
"""The share of its writing time over which an answer comes at least, unless it was held back."""


async def _pace(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """A short answer says how long it takes to begin. A long one that is written in `t` more arrives over `t`, unless
    its first piece waits for its last. One that does is proof enough: a busy machine makes bursts, too.
    """
    await _timed(client, ctx, FEW)  # the first one may be slow
    few: list[ModelReply] = []
    many: list[ModelReply] = []
    is_awake: list[bool] = []
    tokens = MANY
    for at in range(MAX_TRIES):
        if at < TRIES:
            few.append(await _timed(client, ctx, FEW))
        one, pause = await _watched(client, ctx, tokens)
        many.append(one)
        began = min(one.timing.ttft or 0.0 for one in few)
        written = (many[-1].timing.e2e or 0.0) - began
        if not at and written < FAST:
            tokens, many = MORE, []
            continue
        if _span(many[-1]) >= HELD * written and written >= MIN_LONGER:
            return passed(f"the first piece comes after {(many[-1].timing.ttft or 0.0) * 1000:.0f} ms, the last after "
                          f"{(many[-1].timing.e2e or 0.0) * 1000:.0f} ms", seconds=round(began, 4))  # fmt: skip
        is_awake.append(pause < AWAKE * written)
        longer = min(one.timing.e2e or 0.0 for one in many) - min(one.timing.e2e or 0.0 for one in few)
        if at + 1 >= TRIES and (longer < MIN_LONGER or longer * sum(is_awake) > MIN_HELD_SECONDS):
            break
    if longer < MIN_LONGER:
        return not_applicable(f"too fast to tell: {tokens} tokens take {longer * 1000:.0f} ms longer than {FEW}")
    if sum(is_awake) < MIN_AWAKE:
        return not_applicable("this machine is too busy for this check: it cannot see single pieces")
    one = min(many, key=_span)
    rate = f"{one.timing.tokens.output or one.timing.chunks} tokens within {_span(one) * 1000:.1f} ms"
    text = f"each of {len(many)} long streams begins {longer * 1000:.0f} ms later, then comes in a burst: {rate}"
    return failed("held", text, seconds=round(longer, 4))


async def _timed(client: ModelClient, ctx: CheckContext, tokens: int) -> ModelReply:
    return await ask(client, ctx, ctx.wording.long, stream=True, max_tokens=tokens, is_cut=True)


async def _watched(client: ModelClient, ctx: CheckContext, tokens: int) -> tuple[ModelReply, float]:
    """The stream, and the longest time for which this program did not run meanwhile: then all pieces come at once."""
    pause, error = 0.0, None

    async def tick() -> None:
        nonlocal pause
        last = client.clock()
        while True:
            await asyncio.sleep(TICK)
            now = client.clock()
            pause, last = max(pause, now - last), now

    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(tick())
        try:
            reply = await _timed(client, ctx, tokens)
        except RequestFailed as found:
            error = found
        ticking.cancel()
    if error is not None:
        raise error
    return reply, pause


def _span(reply: ModelReply) -> float:
    """Seconds from the first piece to the last."""
    return (reply.timing.last_token_at or 0.0) - (reply.timing.first_token_at or 0.0)


PACE = (
    PreflightCheck(
        "pace",
        "a stream comes as it is written, not in one burst at its end",
        "a buffer that holds back less than three quarters of an answer; a server that writes them within 15 ms",
        _pace,
    ),
)
