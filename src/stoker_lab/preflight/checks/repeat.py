"""The same short questions again and again, one after the other: always the same model, and never much slower?"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Sequence

from stoker_lab.preflight import text_damage, wire_flaws
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    RepeatedRequest,
    answers_vary,
    ask,
    failed,
    not_applicable,
    passed,
    quoted,
)
from stoker_lab.preflight.checks.unicode import TEXTS
from stoker_lab.requests.client import ModelClient

TIMES, PROMPTS = 24, 4
TOKENS = 24
FLOOR = 0.08
"""Seconds that a slow request takes more, at least."""
OFTEN = 0.25
"""The same where there is no period: then noise of the machine is the first thing to think of."""
_PERIODS = range(2, 9)
_FEW = 3
"""Slow requests of each round that are suspect: one in eight."""
_ROUNDS = 3


async def _repeats(client: ModelClient, ctx: CheckContext) -> list[RepeatedRequest]:
    """Asked once for all checks of this file; kept in `about`."""
    return ctx.repeats or await _more(client, ctx)


async def _more(client: ModelClient, ctx: CheckContext) -> list[RepeatedRequest]:
    """Another round. Prompts come in an order without a period, and each equally often."""
    order = [at for at in range(PROMPTS) for _ in range(TIMES // PROMPTS)]
    ctx.dice(f"repeat {len(ctx.repeats)}").shuffle(order)
    for prompt in order:
        reply = await ask(client, ctx, _questions(ctx)[prompt], stream=True, max_tokens=TOKENS, is_cut=True)
        ctx.repeats.append(RepeatedRequest(prompt, reply))
    return ctx.repeats


def _questions(ctx: CheckContext) -> list[str]:
    """Two that models answer in words of their own, two that are hard for those that know their answers by heart."""
    wording = ctx.wording
    hard = (" ".join(wording.words[:96:4]), TEXTS[1])
    return [wording.prose[0], wording.prose[7], *(wording.echo.format(words=text) for text in hard)]


# -- the same model --------------------------------------------------------------------------------------------------


async def _same(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. one name  2. equal prompts cost the same  3. answers that differ early, on several prompts, are another's
    4. as recorded, at least one"""
    repeats = await _repeats(client, ctx)
    n = len(repeats)
    if len(names := Counter(name for one in repeats for name in wire_flaws.named_models(one.reply))) > 1:  # 1
        counted_names = ", ".join(f"'{name}' {count} times" for name, count in names.most_common(4))
        return failed("names", f"answers to {n} identical requests say that they are from {counted_names}", n=n)
    for prompt in range(PROMPTS):
        costs = Counter(one.reply.timing.tokens.input for one in repeats if one.prompt == prompt)
        if len(costs) > 1:  # 2
            return failed("tokens", f"one prompt costs {' or '.join(f'{cost} tokens' for cost in costs)}", n=n)
    odd = strangers([(one.prompt, one.reply.visible_text) for one in repeats])
    if odd and not ctx.is_sampled:  # 3
        one = repeats[odd[0]]
        usual = Counter(other.reply.visible_text for other in repeats if other.prompt == one.prompt).most_common(1)[0][
            0
        ]
        example = quoted(one.reply.visible_text, 40)
        text = f"{len(odd)} of {n} answers are of another kind: {example}, mostly {quoted(usual, 40)}"
        return failed("answers", text, n=n, passed=n - len(odd))
    marks = _marks(repeats)
    known = {name: mark for name, mark in marks.items() if name in ctx.baseline and not ctx.is_sampled}
    if known and all(ctx.baseline[name] != mark for name, mark in known.items()):  # 4
        return failed("changed", f"none of {len(known)} answers begins as it was recorded", n=n, **marks)
    if why := answers_vary(ctx):
        return passed(f"{n} identical requests under one name; {why}", n=n)
    remark = "; as recorded" if known else ""
    return passed(f"{n} identical requests, one model as far as answers show{remark}", n=n, passed=n, **marks)


def _marks(repeats: Sequence[RepeatedRequest]) -> dict[str, int]:
    """A number for the usual answer to each prompt, by which --baseline knows it again."""
    usual = {}
    for prompt in range(PROMPTS):
        text = Counter(one.reply.visible_text for one in repeats if one.prompt == prompt).most_common(1)[0][0]
        usual[f"answer-{prompt + 1}"] = zlib.crc32(text.encode())
    return usual


def strangers(answers: Sequence[tuple[int, str]]) -> list[int]:
    """(prompt, text) -> places of those that another model wrote. Prompts whose answers vary too much say nothing.

    Rounding makes answers of one model part late, and on the prompt where two words are nearly as likely. Another model
    parts early, and on every prompt.
    """
    found: list[int] = []
    prompts = {prompt for prompt, _ in answers}
    for prompt in prompts:
        own = [(at, text) for at, (one, text) in enumerate(answers) if one == prompt]
        usual, count = Counter(text for _, text in own).most_common(1)[0]
        if count <= len(own) / 2:
            continue
        found += [at for at, text in own if text_damage.common_prefix(text, usual) < len(usual) / 2]
    touched = {answers[at][0] for at in found}
    return sorted(found) if len(found) >= 2 and len(touched) >= min(2, len(prompts)) else []


# -- ids -------------------------------------------------------------------------------------------------------------


async def _own_ids(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """Each answer is known by its id: in logs, in bills, and where a client reports it."""
    ids = Counter(one.reply.answer.id for one in await _repeats(client, ctx) if one.reply.answer.id)
    n = ids.total()
    if not n:
        return not_applicable("answers have no id")
    if len(ids) == 1:
        return failed("constant", f"each of {n} answers has the id {next(iter(ids))!r}", n=n)
    return passed(f"{len(ids)} ids of {n} answers", n=n)


# -- never much slower -----------------------------------------------------------------------------------------------


async def _even(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """Suspicion calls for more rounds: a period has to go on, and what has none has to come again in each."""
    repeats = await _repeats(client, ctx)
    while True:
        beyond = _beyond(repeats)
        slow = {at for at, seconds in enumerate(beyond) if seconds > 0}
        rounds = [slow & set(range(start, start + TIMES)) for start in range(0, len(repeats), TIMES)]
        most = max(beyond)
        numbers = {"slow": len(slow), "n": len(repeats)}
        if len(rounds[0]) < _FEW or min(map(len, rounds)) < _FEW - 1:
            return passed(f"{len(repeats)} equal requests, {len(slow)} much slower than the others", **numbers)
        if len(rounds) > 1 and (period := period_of(slow, len(repeats), _firsts(repeats))):
            return failed("periodic", f"every {_nth(period)} request takes up to {most:.2f} s longer", **numbers)
        if len(rounds) == _ROUNDS:
            break
        repeats = await _more(client, ctx)
    if sum(seconds > OFTEN for seconds in beyond) < (_FEW - 1) * _ROUNDS:
        return passed(f"{len(repeats)} identical requests, uneven by {most:.2f} s at most, without a period", **numbers)
    return failed(
        "often", f"{len(slow)} of {len(repeats)} identical requests take up to {most:.2f} s longer", **numbers
    )


def _beyond(repeats: Sequence[RepeatedRequest]) -> list[float]:
    """Seconds that each slow request took more than its prompt usually does; 0: it was not slow."""
    took = [one.reply.timing.ended - one.reply.timing.t0 for one in repeats]
    usual = {}
    for prompt in range(PROMPTS):
        times = sorted(seconds for seconds, one in zip(took, repeats, strict=True) if one.prompt == prompt)
        base = times[len(times) // 3]
        usual[prompt] = (base, base + max(FLOOR, base / 2, 4 * (base - times[0])))
    firsts = _firsts(repeats)
    return [
        seconds - usual[one.prompt][0] if seconds > usual[one.prompt][1] and at not in firsts else 0.0
        for at, (seconds, one) in enumerate(zip(took, repeats, strict=True))
    ]


def _firsts(repeats: Sequence[RepeatedRequest]) -> set[int]:
    """The first request of each prompt: it may well be slow."""
    prompts = [one.prompt for one in repeats]
    return {prompts.index(prompt) for prompt in set(prompts)}


def period_of(slow: Collection[int], n: int, left_out: Collection[int] = ()) -> int:
    """Every how many are slow, if that goes on from one end to the other; 0: there is no such period."""
    for period in _PERIODS:
        for first in range(period):
            wanted = [at for at in range(first, n, period) if at not in left_out]
            hits = sum(at in slow for at in wanted)
            if len(wanted) >= 3 and hits >= len(wanted) - 1 and hits >= 0.7 * len(slow):
                return period
    return 0


def _nth(period: int) -> str:
    return {2: "second", 3: "third"}.get(period, f"{period}th")


REPEAT = (
    PreflightCheck(
        "same-model",
        "identical requests are answered by the same model, under one name",
        "another model that answers every request in the same way and under the right name (--baseline does); "
        "one that answers fewer than one request in ten",
        _same,
    ),
    PreflightCheck(
        "ids",
        "answers have ids of their own",
        "ids that come again now and then; the ids of other dialects",
        _own_ids,
    ),
    PreflightCheck(
        "even-times",
        "none of 24 identical requests is much slower than the others, again and again",
        "less than 0.08 s or half a request; fewer than one request in eight; what all requests have in common",
        _even,
    ),
)
