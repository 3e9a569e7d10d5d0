"""Do prompts that begin alike get answers of their own? A cache that knows a prompt by its beginning mixes them up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker_lab.preflight import filler
from stoker_lab.preflight.check import CheckContext, CheckResult, PreflightCheck, ask, failed, passed, user_turn
from stoker_lab.preflight.checks.context import per_sentence
from stoker_lab.requests.client import ModelClient

ENDINGS = 3
_LONG = 700
"""Tokens that the prompts have in common, at most."""
_STEP = 4
"""Sentences that each ending has more than the one before, so that each prompt costs something else."""
_TOKENS = 32


async def _prefix(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. prompts of other lengths cost the same: an answer was given again  2. so it was if it holds a word that only
    an earlier prompt had. One after the other, in one turn and in a conversation."""
    each, _ = await per_sentence(client, ctx)
    dice = ctx.dice("prefix")
    most = min(_LONG, (ctx.facts.context or 4 * _LONG) // 4)
    common = " ".join(filler.sentences(dice, int(most / each) if each else 20))
    found = 0
    for form in ("a question", "a conversation"):
        words = ctx.words(dice, ENDINGS)
        owner = dice.choice(ctx.wording.owners)
        costs: list[int | None] = []
        for at, word in enumerate(words):
            more = " ".join([*filler.sentences(dice, _STEP * at), ctx.wording.fact.format(owner=owner, word=word)])
            turns = _turns(form, common, f"{more}\n\n{ctx.wording.question.format(owner=owner)}")
            reply = await ask(client, ctx, turns, max_tokens=_TOKENS, is_cut=True)
            costs.append(reply.timing.tokens.input)
            said = reply.visible_text.lower()
            if word not in said and (other := next((one for one in words[:at] if one in said), "")):  # 2
                return failed("other", f"{form} that begins like an earlier one is answered with its word, {other!r}")
            found += word in said
        if each and None not in costs and len(set(costs)) < len(costs):  # 1
            counted = ", ".join(map(str, costs))
            return failed("cached", f"{form} of other lengths that begins alike each time costs {counted} tokens")
    n = 2 * ENDINGS
    return passed(f"{n} prompts that begin alike, each read by itself; {found} words found", n=n)


def _turns(form: str, common: str, ending: str) -> Sequence[Mapping[str, Any]]:
    if form == "a question":
        return [user_turn(f"{common} {ending}")]
    return [user_turn(common), {"role": "assistant", "content": "I have read it."}, user_turn(ending)]


PREFIX = (
    PreflightCheck(
        "prefix",
        "prompts that begin alike get answers of their own",
        "a cache that knows a prompt by more than its first 700 tokens; one that counts anew, where the model finds no "
        "words",
        _prefix,
    ),
)
