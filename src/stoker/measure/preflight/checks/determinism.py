"""Equal answers to equal questions, and no words of other requests."""

from __future__ import annotations

from functools import partial

from stoker.measure.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    ask,
    failed,
    is_rate_below,
    passed,
    quoted,
    run_concurrently,
)
from stoker.measure.requests.client import ModelClient

ALONE, BATCH, NONCES = 5, 8, 8
_GROSS = 0.5
"""The share of the answers to one prompt at temperature 0 that must begin alike."""
_BEGINNING = 16


async def _determinism(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """How long answers agree, alone and in a batch: recorded, not judged. Batches change the order of sums, and so the
    last bits; answers that differ from their first words on are no rounding: the temperature is not heeded."""
    question = ctx.wording.prose[1]
    question_asked = partial(ask, client, ctx, question, seed=7, max_tokens=160)
    alone = [(await question_asked()).text for _ in range(ALONE)]
    batch = [one.text for one in await run_concurrently(ctx, [question_asked] * BATCH, at_once=BATCH)]
    among, beside = _agreement(alone), _agreement([alone[-1], *batch])
    numbers = {"alone": among, "batch": beside, "characters": len(alone[-1])}
    begins = max(sum(text[:_BEGINNING] == other[:_BEGINNING] for text in alone) for other in alone)
    if begins <= _GROSS * ALONE:
        text = f"{ALONE} answers to one prompt at temperature 0 differ from the first words on: {quoted(alone[0], 30)}"
        return failed("random", f"{text}, {quoted(alone[1], 30)}", **numbers)
    summary = f"{among} characters agree alone, {beside} in a batch of {BATCH}, of {len(alone[-1])}"
    return passed(f"{summary} (recorded, not judged)", **numbers)


def _agreement(texts: list[str]) -> int:
    return next((at for at, signs in enumerate(zip(*texts, strict=False)) if len(set(signs)) > 1), min(map(len, texts)))


async def _bleed(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """Each answer may hold its own words only. Zero failures."""
    dice = ctx.dice("bleed")
    words = ctx.words(dice, 4 * NONCES)
    own = [words[4 * at : 4 * at + 4] for at in range(NONCES)]
    foreign = 0
    whole = 0
    for stream in (False, True):
        asks = [partial(ask, client, ctx, ctx.wording.echo.format(words=" ".join(mine)), stream=stream)
                for mine in own]  # fmt: skip
        replies = await run_concurrently(ctx, asks, at_once=NONCES)
        for mine, one in zip(own, replies, strict=True):
            said = set(one.text.lower().split())
            foreign += len(said & (set(words) - set(mine))) >= 2
            whole += set(mine) <= said
    numbers = {"passed": 2 * NONCES - foreign, "n": 2 * NONCES, "whole": whole}
    if foreign:
        return failed("bleed", f"{foreign} of {2 * NONCES} answers hold the words of another request", **numbers)
    if is_rate_below(whole, 2 * NONCES, 0.7):
        return failed("lost", f"{whole} of {2 * NONCES} answers hold their own words", **numbers)
    return passed(f"{NONCES} at once, twice: no answer holds another's words", **numbers)


STEADY = (
    PreflightCheck(
        "determinism",
        "answers agree at temperature 0 (recorded)",
        "a temperature over 0 that is changed on the way",
        _determinism,
    ),
    PreflightCheck(
        "bleed",
        "concurrent requests do not mix",
        "words mixed up with those of other callers, or less than two of them",
        _bleed,
    ),
)
