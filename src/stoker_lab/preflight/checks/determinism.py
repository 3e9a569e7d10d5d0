"""Equal answers to equal questions, and no words of other requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations

from stoker_lab.preflight import text_damage
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    RequestFailed,
    ask,
    failed,
    is_rate_below,
    passed,
    quoted,
    run_concurrently,
)
from stoker_lab.preflight.checks.unicode import TEXTS
from stoker_lab.requests.client import ModelClient

SEEDS = (7, 11, 13)
BATCH, NONCES = 8, 8
HOT = (1.5, 1.0)
"""Temperatures at which answers vary: the second where the first is refused."""
_SHORT, _LONG = 64, 160
"""Tokens of an answer that is hard to foresee, and of prose."""


async def _determinism(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """At temperature 0 the seed changes nothing, at a high one it does. 1. answers with other seeds part early, again
    and again: sampled  2. they are the same at a high temperature, whatever is asked: not sampled

    How long answers agree, alone and in a batch, is recorded, not judged: batches change the order of sums, and so the
    last bits. Answers that part early on a hard question, each from each other, are no rounding.
    """
    cold = await _with_seeds(client, ctx, 0.0)
    if apart := await _sampled(client, ctx, cold):  # 1
        ctx.is_sampled = True
        return failed("random", apart)
    temperature, hot = await _hot(client, ctx)
    if hot and all(len(set(texts)) == 1 for texts in hot):  # 2
        again = await _with_seeds(client, ctx, temperature, (17, 19))
        texts = [text for answers in (*hot, *again) for text in answers]
        if any(texts) and all(len(set(one + other)) == 1 for one, other in zip(hot, again, strict=True)):
            return failed(
                "fixed", f"temperature {temperature} and 4 seeds give the same answer each time: {quoted(texts[0], 40)}"
            )
    alone = cold[0]
    question_asked = partial(ask, client, ctx, _questions(ctx)[0], seed=SEEDS[0], max_tokens=_LONG, is_cut=True)
    batch = [one.text for one in await run_concurrently(ctx, [question_asked] * BATCH, at_once=BATCH)]
    among, beside = _agreement(alone), _agreement([alone[-1], *batch])
    numbers = {"alone": among, "batch": beside, "characters": len(alone[-1])}
    summary = f"{among} characters agree alone, {beside} in a batch of {BATCH}, of {len(alone[-1])}"
    end = f"at temperature {temperature} they vary" if hot else f"temperature {temperature} is refused"
    return passed(f"{summary} (recorded, not judged); {end}", **numbers)


async def _hot(client: ModelClient, ctx: CheckContext) -> tuple[float, list[list[str]]]:
    """(the highest temperature that is taken, the answers); without answers: all are refused."""
    for temperature in HOT:
        try:
            return temperature, await _with_seeds(client, ctx, temperature, SEEDS[:2])
        except RequestFailed as error:
            if not error.is_refusal:
                raise
    return HOT[-1], []


def _questions(ctx: CheckContext) -> tuple[str, str]:
    """One that models answer in words of their own, one that is hard for those that know their answers by heart."""
    return ctx.wording.prose[1], ctx.wording.echo.format(words=TEXTS[1])


async def _with_seeds(
    client: ModelClient, ctx: CheckContext, temperature: float, seeds: Sequence[int] = SEEDS
) -> list[list[str]]:
    """The answers to each question. Where the engine knows how, the hard one goes on beyond its end: no model is sure
    of what comes there."""
    found: list[list[str]] = []
    beyond = {"ignore_eos": True} if ctx.facts.engine_name else {}
    for question, limit, fields in zip(_questions(ctx), (_LONG, _SHORT), ({}, beyond), strict=True):
        replies = [
            await ask(
                client, ctx, question, temperature=temperature, seed=seed, max_tokens=limit, is_cut=True, **fields
            )
            for seed in seeds
        ]
        found.append([one.visible_text for one in replies])
    return found


async def _sampled(client: ModelClient, ctx: CheckContext, cold: Sequence[Sequence[str]]) -> str:
    """A sentence; empty: the answers agree. What is suspicious has to come again."""
    if not any(map(part_early, cold)):
        return ""
    again = await _with_seeds(client, ctx, 0.0)
    for texts, others in zip(cold, again, strict=True):
        if part_early(texts) and part_early(others):
            return (f"answers to one prompt at temperature 0 differ with the seed: {quoted(texts[0], 30)}, "
                    f"{quoted(texts[1], 30)}, {quoted(texts[2], 30)}")  # fmt: skip
    return ""


def part_early(texts: Sequence[str]) -> bool:
    """Whether each text parts from each other in its first half."""
    return all(
        text_damage.common_prefix(one, other) < min(len(one), len(other)) / 2 for one, other in combinations(texts, 2)
    )


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


DETERMINISM = (
    PreflightCheck(
        "determinism",
        "answers agree at temperature 0 whatever the seed (how far is recorded), and vary at a high one",
        "a temperature that is changed a little, or only above 0; one that is forced together with the seed",
        _determinism,
        seconds=900.0,
    ),
)
STEADY = (
    PreflightCheck(
        "bleed",
        "concurrent requests do not mix",
        "words mixed up with those of other callers, or less than two of them",
        _bleed,
    ),
)
