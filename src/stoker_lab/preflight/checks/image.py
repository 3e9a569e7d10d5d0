"""Are pictures seen? And is the same question without the picture not answered, or the proof proves nothing."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from stoker_lab.preflight import pictures
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
from stoker_lab.requests.client import ModelClient


class Picture(NamedTuple):
    asked: str
    drawn: bytes
    wanted: str


PICTURES = (
    Picture("Which number is written in the picture? Answer with the number only.", pictures.number("427"), "427"),
    Picture("Four squares: which colour is at the bottom left? Answer with one word.", pictures.colours(), "green"),
    Picture("Which shape is on the right: circle or square? And its colour? Answer in two words.", pictures.sides(),
            "blue"),
)  # fmt: skip


def content(picture: Picture) -> list[dict[str, Any]]:
    shown = {"type": "image_url", "image_url": {"url": pictures.url(picture.drawn)}}
    return [{"type": "text", "text": picture.asked}, shown]


async def _images(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. a serve that does not say whether it takes pictures may refuse them  2. the question without the picture has
    another answer  3. two of three are seen"""
    if not ctx.facts.reports_modalities and "image" not in ctx.facts.modalities:  # 1
        probe = await client.ask(chat_request(ctx, [{"role": "user", "content": content(PICTURES[0])}], max_tokens=1))
        if not probe.timing.is_ok:
            said = f" ({probe.error_message[:120]})" if probe.error_message else ""
            return not_applicable(f"it refuses pictures: {probe.timing.failure}{said}")
    seeing = [partial(ask, client, ctx, [{"role": "user", "content": content(one)}]) for one in PICTURES]
    blind = [partial(ask, client, ctx, one.asked) for one in PICTURES]
    replies = await run_concurrently(ctx, [*seeing, *blind])
    with_, without = replies[: len(PICTURES)], replies[len(PICTURES) :]
    seen = sum(one.wanted in answer.text.lower() for one, answer in zip(PICTURES, with_, strict=True))
    guessed = sum(one.wanted in answer.text.lower() for one, answer in zip(PICTURES, without, strict=True))
    tokens = (with_[0].timing.tokens.input or 0) - (without[0].timing.tokens.input or 0)
    numbers = {"passed": seen, "n": len(PICTURES), "guessed": guessed, "tokens": tokens}
    if seen < 2 or seen <= guessed:  # 2, 3
        why = "dropped" if tokens <= 0 else "blind"
        text = f"{seen} of {len(PICTURES)} seen, {guessed} right without the picture; it costs {tokens} tokens"
        return failed(why, text, **numbers)
    return passed(f"{seen} of {len(PICTURES)} seen, {guessed} guessed without the picture", **numbers)


def _sees(ctx: CheckContext) -> str:
    says_no = ctx.facts.reports_modalities and "image" not in ctx.facts.modalities
    return "the serve says that it takes text only" if says_no else ""


IMAGE = (
    PreflightCheck(
        "image",
        "three small pictures are seen, and not guessed",
        "pictures of other sizes and kinds; several in one message",
        _images,
        _sees,
    ),
)
