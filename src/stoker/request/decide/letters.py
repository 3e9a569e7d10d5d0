"""Text as it is compared: without accents, in the usual forms of letters and marks, symbols as blanks. Pure.

What becomes of a character depends on it alone, unless the text holds accents as characters of their own or letters
that are put together from several: only then is the whole text normalised.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from stoker.request.decide.verbs import plain

MOST_REMEMBERED = 4096
"""Characters of which is remembered what they become."""
_ASCII = bytes(range(128))
_BEYOND = re.compile(r"[^\x00-\x7f\w]")
"""What is in no word, and not in ASCII: dashes, quotation marks, symbols, blanks of print."""
_WIDE = {"\u2019": "'", "。": ". ", "？": "? ", "！": "! ", "：": ": ", "；": "; "}
"""Marks, and what they are in ASCII: after those of East Asia there is no blank."""
_PARTS_OF_SYLLABLES = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
_SAME: set[str] = set()
"""Some of those that stay what they are."""
_SYLLABLES = ("\uac00", "\ud7a3")


def comparable(lower: str) -> str:
    """Never raises. `lower`: in lower case."""
    if lower.isascii():
        return lower
    beyond = set(lower.encode(errors="replace").translate(None, _ASCII).decode()).difference(_SAME)
    if not beyond:
        return lower
    found = [(char, _simple(char)) for char in beyond]
    for char, simple in found:
        if simple is None:
            return _normalised(lower)
        if simple != char:
            lower = lower.replace(char, simple)
        elif len(_SAME) < MOST_REMEMBERED:
            _SAME.add(char)
    return lower


def _normalised(lower: str) -> str:
    for mark, ascii_mark in _WIDE.items():
        lower = lower.replace(mark, ascii_mark)
    return _BEYOND.sub(" ", plain(lower))


@lru_cache(MOST_REMEMBERED)
def _simple(char: str) -> str | None:
    """None: that depends on the characters beside it."""
    parts = unicodedata.normalize("NFKD", char)
    is_syllable = _SYLLABLES[0] <= char <= _SYLLABLES[1]
    if unicodedata.category(parts[0])[0] == "M" or (not is_syllable and _PARTS_OF_SYLLABLES.search(parts)):
        return None
    return _normalised(char)
