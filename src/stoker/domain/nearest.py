"""The known name that is most similar to a mistyped one. Bounded, however long the word is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 100
"""How many characters of a word are compared."""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The most similar known name, ignoring case; None: none is similar enough.

    `cutoff`: the required similarity, from 0 (any) to 1 (equal).
    """
    by_folded = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word[:LONGEST].casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word; empty if none is similar enough."""
    found = nearest(word, known)
    return f"; did you mean '{found}'?" if found else ""
