"""The nearest known name to one that a person mistyped. Pure, and bounded however long the word is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 100
"""Characters of a word that are compared."""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar known name, whatever the case of either; None: none is similar enough.

    `cutoff`: from 0, anything, to 1, only the same.
    """
    by_folded = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word[:LONGEST].casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word; empty if none is similar enough."""
    found = nearest(word, known)
    return f"; did you mean '{found}'?" if found else ""
