"""Long texts with words hidden in them. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence

_ADJECTIVES = (
    "amber",
    "big",
    "blue",
    "brave",
    "calm",
    "cold",
    "dark",
    "deep",
    "early",
    "flat",
    "gentle",
    "golden",
    "green",
    "happy",
    "heavy",
    "high",
)
_NOUNS = (
    "anchor",
    "basket",
    "bell",
    "boat",
    "book",
    "bridge",
    "castle",
    "chair",
    "clock",
    "coat",
    "door",
    "farm",
    "field",
    "forest",
    "garden",
    "gate",
)
_VERBS = (
    "builds",
    "buys",
    "carries",
    "catches",
    "cleans",
    "closes",
    "counts",
    "cuts",
    "draws",
    "finds",
    "follows",
    "guards",
    "helps",
    "hides",
)


def sentences(dice: random.Random, count: int) -> list[str]:
    return [
        f"The {dice.choice(_ADJECTIVES)} {dice.choice(_NOUNS)} {dice.choice(_VERBS)} the {dice.choice(_NOUNS)}."
        for _ in range(count)
    ]


def text_with_facts(dice: random.Random, count: int, facts: Sequence[tuple[float, str]]) -> str:
    """`facts`: how deep (0 to 1), and the sentence."""
    found = sentences(dice, count)
    for depth, fact in sorted(facts, reverse=True):
        found.insert(round(depth * count), fact)
    return " ".join(found)
