"""Normalises text for comparison: no accents, the usual forms of letters and marks, blanks for symbols. Pure.

Each character is mapped by itself, unless the text has accents as separate characters, or letters that are composed of
several. Only then is the whole text normalised.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from stoker_auto.classify.verbs import plain

MOST_REMEMBERED = 4096
"""How many characters are cached with what they become."""
_ASCII = bytes(range(128))
_BEYOND = re.compile(r"[^\x00-\x7f\w]")
"""Characters outside ASCII that are in no word: dashes, quotation marks, symbols, typographic blanks."""
_WIDE = {"\u2019": "'", "。": ". ", "？": "? ", "！": "! ", "：": ": ", "；": "; "}
"""Marks, and their form in ASCII. East Asian marks are not followed by a blank."""
_PARTS_OF_SYLLABLES = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
_SAME: set[str] = set()
"""Some characters that stay unchanged."""
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
    """What one character becomes; None if that depends on its neighbours."""
    parts = unicodedata.normalize("NFKD", char)
    is_syllable = _SYLLABLES[0] <= char <= _SYLLABLES[1]
    if unicodedata.category(parts[0])[0] == "M" or (not is_syllable and _PARTS_OF_SYLLABLES.search(parts)):
        return None
    return _normalised(char)
