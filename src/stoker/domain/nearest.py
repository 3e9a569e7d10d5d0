"""The known name that is most similar to a mistyped one. Bounded, however long the word is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 100
"""How many characters of a word are compared."""
SHORTEST_BEGINNING = 3
"""How many characters a word needs to stand for a longer name that begins with it."""


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The only known name that begins with the word, else the most similar one, ignoring case; None: none is similar
    enough.

    `cutoff`: the required similarity, from 0 (any) to 1 (equal).
    """
    by_folded = {name.casefold(): name for name in known}
    folded = word[:LONGEST].casefold()
    longer = [name for name in by_folded if name.startswith(folded)] if len(folded) >= SHORTEST_BEGINNING else []
    found = longer if len(longer) == 1 else difflib.get_close_matches(folded, by_folded, n=1, cutoff=cutoff)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word; empty if none is similar enough."""
    found = nearest(word, known)
    return f"; did you mean '{found}'?" if found else ""
