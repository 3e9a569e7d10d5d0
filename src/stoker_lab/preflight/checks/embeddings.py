"""Embeddings: one vector for each text, in order, of length 1, the same for the same text, and near for near texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any, NamedTuple

from stoker.domain.run import Number
from stoker_lab.preflight.check import (
    CheckContext,
    CheckResult,
    PreflightCheck,
    failed,
    not_applicable,
    passed,
    quoted,
)
from stoker_lab.preflight.facts import REFUSALS
from stoker_lab.requests.client import ModelClient

Vector = Sequence[float]
PATH = "/v1/embeddings"


class Neighbours(NamedTuple):
    """A text, one that says nearly the same in nearly the same words, and one that has nothing to do with it."""

    text: str
    near: str
    far: str


NEIGHBOURS = (
    Neighbours("The cat sleeps on the warm stone.", "The cat sleeps on a warm stone.", "Revenue grew by nine percent."),
    Neighbours("Please restart the mail server at noon.", "Please restart the mail server at midday.",
               "Two lovers met under an old oak."),
    Neighbours("Boil the potatoes for twenty minutes.", "Boil the potatoes for about twenty minutes.",
               "The court dismissed his appeal."),
)  # fmt: skip
TEXTS = tuple(text for one in NEIGHBOURS for text in one)
_SAME = 0.999
"""The least cosine of two vectors of one text: engines round, and batches change the order of sums."""
_LENGTH = 0.01
_NEARER = 2
"""Of three texts, for how many the near one has to be nearer than all others."""
_REFUSALS = (*REFUSALS, 413)
_TURN = 5
"""By how many places the texts of the second batch are moved."""


async def _embeddings(client: ModelClient, ctx: CheckContext) -> CheckResult:
    """1. one vector for each text, all of one size  2. of numbers, of length 1  3. the same text has the same, alone
    and in a batch, wherever it stands there; another text has another  4. near texts are nearer than others
    Of a model that answers chat, length and nearness are recorded: it was not made for embeddings."""
    alone, error, _ = await _vectors(ctx, TEXTS[0])
    batch, late, status = await _vectors(ctx, list(TEXTS))
    if not error and status in _REFUSALS:
        return not_applicable(f"it refuses {len(TEXTS)} texts at once: {late}")
    turned, last, _ = await _vectors(ctx, [*TEXTS[_TURN:], *TEXTS[:_TURN]])
    if wrong := error or late or last:
        return failed("form", wrong)
    chats = not ctx.facts.refuses_chat
    sizes = {len(vector) for vector in (*batch, *turned, *alone)}
    if (len(batch), len(turned), len(alone)) != (len(TEXTS), len(TEXTS), 1):  # 1
        return failed("count", f"{len(TEXTS)} texts have {len(batch)} vectors, one text has {len(alone)}")
    if len(sizes) != 1:
        return failed("dimension", f"vectors of one model have {' and '.join(map(str, sorted(sizes)))} numbers")
    lengths = [math.hypot(*vector) for vector in batch]
    if not all(map(math.isfinite, lengths)):  # 2
        return failed("form", "a vector holds what is no number")
    odd = [length for length in lengths if abs(length - 1) > _LENGTH]
    if odd and not chats:
        return failed("length", f"{len(odd)} of {len(lengths)} vectors are not of length 1: {odd[0]:.3f}")
    numbers: dict[str, Number] = {"dimension": len(batch[0]), "n": len(NEIGHBOURS)}
    for one, other in ((batch, [*turned[-_TURN:], *turned[:-_TURN]]), (batch, [*alone, *batch[1:]])):  # 3
        why, sentence = order_flaw(one, other)
        if why:
            return failed(why, sentence, **numbers)
    nearer = sum(has_near(batch, at) for at in range(0, len(batch), 3))
    numbers["passed"] = nearer
    if nearer < _NEARER and not chats:  # 4
        text = f"of {len(NEIGHBOURS)} texts only {nearer} are nearer to nearly the same text than to any other"
        return failed("far", text, **numbers)
    summary = (
        f"vectors of {len(batch[0])} numbers, in order; {len(lengths) - len(odd)} of {len(lengths)} are of length 1"
    )
    return passed(f"{summary}, {nearer} of {len(NEIGHBOURS)} near texts are nearer than all others", **numbers)


async def _vectors(ctx: CheckContext, texts: str | list[str]) -> tuple[list[list[float]], str, int]:
    """(the vectors in the order of the answer, what is wrong with its form, its status)"""
    page = await ctx.pages.post(PATH, {"model": ctx.facts.model, "input": texts})
    if page.status != 200:
        said = quoted(page.body.decode("utf-8", "replace"))
        return [], f"{PATH} answers {page.status or 'nothing'}: {said}", page.status
    found: list[list[float]] = []
    data = page.document.get("data") if isinstance(page.document, dict) else None
    for at, entry in enumerate(data if isinstance(data, list) else []):
        vector = entry.get("embedding") if isinstance(entry, dict) else None
        if not isinstance(vector, list) or not vector or not all(_is_number(value) for value in vector):
            return [], f"entry {at} of an answer has no list of numbers as embedding", page.status
        if entry.get("index", at) != at:
            wrong = f"entry {at} of an answer has the index {entry['index']}: clients read them in order"
            return [], wrong, page.status
        found.append(vector)
    return found, "", page.status


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cosine(one: Vector, other: Vector) -> float:
    length = math.hypot(*one) * math.hypot(*other)
    return sum(map(mul, one, other)) / length if length else 0.0


def has_near(vectors: Sequence[Vector], at: int) -> bool:
    """Whether the vector behind this one is nearer to it than all others are."""
    near = cosine(vectors[at], vectors[at + 1])
    return all(near > cosine(vectors[at], other) for place, other in enumerate(vectors) if place not in (at, at + 1))


def order_flaw(vectors: Sequence[Vector], again: Sequence[Vector]) -> tuple[str, str]:
    """(cause, sentence) of vectors of the same texts, asked for in two ways; ("", ""): nothing."""
    if len(vectors) > 1 and all(cosine(vectors[0], other) > 1 - 1e-6 for other in vectors[1:]):
        return "constant", f"{len(vectors)} different texts have the same vector"
    alike = [cosine(one, other) >= _SAME for one, other in zip(vectors, again, strict=True)]
    if all(alike):
        return "", ""
    moved = sum(any(cosine(one, other) >= _SAME for other in again) for one in vectors)
    if moved == len(vectors):
        return "order", f"{alike.count(False)} of {len(vectors)} vectors belong to another text of the batch"
    worst = min(cosine(one, other) for one, other in zip(vectors, again, strict=True))
    return "same", f"one text has another vector when it is asked again, or in a batch: cosine {worst:.3f}"


def _embeds(ctx: CheckContext) -> str:
    return "" if ctx.facts.makes_embeddings else "it makes no embeddings"


EMBEDDINGS = (
    PreflightCheck(
        "embeddings",
        "vectors come in order, of one size and of length 1, the same for one text, nearer for near texts",
        "length and nearness of a model that also answers chat: they are recorded; vectors that are in order and say "
        "little; long texts that are cut; `dimensions` and `encoding_format`",
        _embeddings,
        _embeds,
        asks_chat=False,
    ),
)
