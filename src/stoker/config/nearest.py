"""Did you mean …?"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing when none is near."""
    by_case = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_case, n=1, cutoff=0.6)
    return f"; did you mean '{by_case[near[0]]}'?" if near else ""


def listed(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
