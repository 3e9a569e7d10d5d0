"""The features by which a task's class is found: its words and what it asks for. Each has a name, and a weight. Pure.

Tables of names (a weight of one says nothing of another):

word    each word of the sentences that are read
affix   `abcd~` and `~xyz`: how a word of five letters or more begins and ends; `ab` of what is written without blanks
next    each word with the one after it
sign    verbs, what they ask for, and about what; shapes of the text, and its length
form    what the request says outside its text: tools, results, thinking
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from operator import add
from string import digits
from typing import NamedTuple

from stoker.domain.task import Outline
from stoker_auto.classify.asks import Ask, Reading

TABLES = ("word", "affix", "next", "sign", "form")
FIRST, LAST = 2, 1
"""Sentences in which pairs of neighbouring words count."""
HAS_AFFIXES = 5
"""The shortest word that has affixes."""
BEGIN, END = 4, 3
"""Letters of an affix at the beginning of a word, and at its end."""
AFFIX = "~"
"""Stands for the rest of the word."""
NO_BLANKS = "\u3000"
"""Scripts without blanks have letters beyond this character."""


class Features(NamedTuple):
    """The features of one text. No collection has duplicates, except `sentences`, where each pair of neighbours counts
    once.
    """

    words: frozenset[str]
    sentences: tuple[tuple[str, ...], ...]
    signs: frozenset[str]

    @property
    def size(self) -> int:
        """How many features there are, known or not. In a long text each one counts less."""
        neighbours = sum(map(len, self.sentences)) - len(self.sentences)
        return neighbours + len(self.words) + len(self.signs)


def features(reading: Reading) -> Features:
    sentences = reading.sentences
    return Features(
        reading.words,
        sentences if len(sentences) < FIRST + LAST else (*sentences[:FIRST], *sentences[-LAST:]),
        frozenset(chain(_marks(reading), *map(_names, reading.asks)) if reading.asks else [*_marks(reading), "none"]),
    )


def neighbours(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    return chain.from_iterable(map(pairwise, sentences))


def affixes(word: str) -> list[str]:
    """Features of a word that may be unknown: how it begins and ends."""
    if word[0] > NO_BLANKS:
        return list(dict.fromkeys(pairs(word)))
    return [word[:BEGIN] + AFFIX, AFFIX + word[-END:]] if len(word) >= HAS_AFFIXES else []


def pairs(word: str) -> Iterator[str]:
    """Pairs of neighbouring letters, for scripts without blanks."""
    return map(add, word, word[1:])


def form(outline: Outline) -> tuple[str, ...]:
    if not (outline.tools or outline.has_results or outline.is_long or outline.wants_thinking):
        return ()
    return (
        *(("tools",) if outline.tools else ()),
        *(("results",) if outline.has_results else ()),
        *(("long",) if outline.is_long else ()),
        *(("thinking",) if outline.wants_thinking else ()),
    )


@lru_cache(1024)
def _names(ask: Ask) -> tuple[str, ...]:
    """Names of features of an ask, which holds only words of the tables."""
    kind = ask.kind
    roles = [name for role in ask.roles for name in (f"to:{role}", f"{role}:{kind}")]
    return (f"ask:{ask.verb}", f"of:{kind}", f"{ask.verb} {ask.noun}", *roles)


def _marks(reading: Reading) -> list[str]:
    sentences, prose, marks = reading.sentences, reading.prose, reading.marks
    found = [f"shape:{shape}" for shape in reading.shapes] if reading.shapes else []
    found.append(_PATHS[min(reading.paths, 3)])
    found.append(_SENTENCES[min(len(sentences), 6)])
    found.append(_LENGTHS[min(sum(map(len, sentences)).bit_length(), 8)])
    if sentences:
        found += _edges("begins", sentences[0])
        if len(sentences) > 1:
            found += _edges("ends", sentences[-1])
    if "?" in marks and prose.rstrip().endswith("?"):
        found.append("question")
    if special := _SPECIAL & marks:
        found += map(_PARTS.__getitem__, special)
        found += [name for mark, part, name in _PAIRS if mark in special and part in prose]
    if not prose.isascii() and reading.words:
        found.append("beyond ascii")
        last = max(reading.words)
        found += [name for letter, name in _SCRIPTS if last > letter]
    if numbers := len(marks & _DIGITS):
        found.append(_NUMBERS[min(numbers, 6)])
        found += map(_OF_NUMBERS.__getitem__, _SIGNS_OF_NUMBERS & marks)
        found += [name for mark, part, name in _BETWEEN_NUMBERS if mark in marks and part in prose]
        if " x " in prose:
            found.append("by")
        if not prose.isascii():
            found += [name for sign, name in _SIGNS_BEYOND_ASCII if sign in prose]
    return found


def _edges(place: str, words: Sequence[str]) -> tuple[str, str]:
    first = f"{place}:{words[0]}"
    return first, f"{first} {words[1]}" if len(words) > 1 else first


_PATHS = [f"paths:{size}" for size in range(4)]
_SENTENCES = [f"sentences:{size}" for size in range(7)]
_LENGTHS = [f"words:{size}" for size in range(9)]
_NUMBERS = [f"digits:{size}" for size in range(7)]
_PARTS = {'"': "quotes", "{": "braces", "|": "bars", ">": "above", "_": "underscore", "(": "bracket", "%": "percent"}
_SPECIAL = frozenset(_PARTS)
_PAIRS = ((">", "->", "arrow"), ("(", "()", "call"))
_DIGITS = frozenset(digits)
_OF_NUMBERS = {"+": "plus", "*": "times", "=": "equals", "^": "power"}
_SIGNS_OF_NUMBERS = frozenset(_OF_NUMBERS)
_BETWEEN_NUMBERS = (("-", " - ", "minus"), ("/", " / ", "over"))
_SIGNS_BEYOND_ASCII = (("×", "times"), ("²", "power"))
_SCRIPTS = ((NO_BLANKS, "no blanks"), ("\u0400", "beyond latin"))
"""The offset after which the last word begins."""


def named(seen: Features, forms: Collection[str]) -> Iterator[tuple[str, str]]:
    """Table and name of each feature: for training. A name comes as often as it counts."""
    for word in seen.words:
        yield "word", word
        yield from (("affix", affix) for affix in affixes(word))
    yield from (("next", f"{word} {after}") for word, after in set(neighbours(seen.sentences)))
    for table, names in zip(TABLES[3:], (seen.signs, forms), strict=True):
        yield from ((table, name) for name in names)
