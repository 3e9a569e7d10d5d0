"""What a task is told by: the words of its text and what it asks for, as names that have a weight each. Pure.

Tables of names (a weight of one says nothing of another):

word    each word of the sentences that are read
affix   `abcd~` and `~xyz`: how a word of five letters or more begins and ends; `ab` of what is written without blanks
next    each word with the one after it
first   the first words of the first sentence
last    the last words of the last one
ask     verbs, what is asked with them, and what for
mark    shapes of the text, and how long it is
form    what the request itself says: tools, results, thinking
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from stoker.domain.task import Outline
from stoker.request.decide.asks import Ask, Reading
from stoker.request.decide.languages import WITHOUT_BLANKS

TABLES = ("word", "affix", "next", "first", "last", "ask", "mark", "form")
EDGE = 12
"""Words of the first and the last sentence that count by their place."""
HAS_AFFIXES = 5
"""Letters of a word that has some."""
NO_BLANKS = "\u3000"
"""Scripts that are written without blanks have letters beyond this one."""


class Features(NamedTuple):
    """Of one text. Nothing stands twice in one of them but in `sentences`, whose neighbours count, each pair once."""

    words: frozenset[str]
    sentences: tuple[tuple[str, ...], ...]
    first: frozenset[str]
    last: frozenset[str]
    asks: frozenset[str]
    marks: frozenset[str]

    @property
    def size(self) -> int:
        """How many there are, known ones and others: of a long text each says less."""
        neighbours = sum(map(len, self.sentences)) - len(self.sentences)
        others = (self.words, self.first, self.last, self.asks, self.marks)
        return neighbours + sum(map(len, others))


def features(reading: Reading) -> Features:
    sentences = reading.sentences
    return Features(
        reading.words,
        sentences,
        frozenset(sentences[0][:EDGE]) if sentences else frozenset(),
        frozenset(sentences[-1][-EDGE:]) if len(sentences) > 1 else frozenset(),
        frozenset(_asks(reading.asks)),
        frozenset(_marks(reading)),
    )


def neighbours(sentences: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Each word with the one after it."""
    return chain.from_iterable(map(pairwise, sentences))


def affixes(word: str) -> list[str]:
    """What is told of a word that nobody has seen before."""
    found = [f"{word[:4]}~", f"~{word[-3:]}"] if len(word) >= HAS_AFFIXES else []
    return [*found, *pairs(word)] if word[0] > NO_BLANKS else found


def pairs(word: str) -> set[str]:
    """Neighbours, in what is written without blanks."""
    return {word[at : at + 2] for at in range(len(word) - 1)}


def form(outline: Outline) -> tuple[str, ...]:
    return (
        *(("tools",) if outline.tools else ()),
        *(("results",) if outline.has_results else ()),
        *(("long",) if outline.is_long else ()),
        *(("thinking",) if outline.wants_thinking else ()),
    )


def _asks(asks: Sequence[Ask]) -> Iterator[str]:
    if not asks:
        yield "none"
    for ask in asks:
        yield f"ask:{ask.verb}"
        yield f"of:{ask.kind}"
        yield f"{ask.verb} {ask.noun}"
        for role in ask.roles:
            yield f"to:{role}"
            yield f"{role}:{ask.kind}"


def _marks(reading: Reading) -> Iterator[str]:
    sentences, prose = reading.sentences, reading.prose
    for place, sentence in (("begins", sentences[:1]), ("ends", sentences[1:][-1:])):
        for words in sentence:
            yield f"{place}:{words[0]}"
            yield f"{place}:{' '.join(words[:2])}"
    yield from (f"shape:{shape}" for shape in reading.shapes)
    yield f"paths:{min(reading.paths, 3)}"
    yield f"sentences:{min(len(sentences), 6)}"
    yield f"words:{min(sum(map(len, sentences)).bit_length(), 8)}"
    if prose.rstrip().endswith("?"):
        yield "question"
    yield from (mark for part, mark in _PARTS if part in prose)
    if not prose.isascii():
        yield "beyond ascii"
        yield from (mark for script, mark in _SCRIPTS if script.search(prose))
        if _SCRIPTS[0][0].search(prose):
            yield from (f"to:{role}" for role, phrases in _WITHOUT_BLANKS if any(map(prose.__contains__, phrases)))
    if numbers := sum(map(str.isdigit, reading.words)):
        yield f"numbers:{min(numbers, 4)}"
        yield from (mark for part, mark in _OF_NUMBERS if part in prose)


_WITHOUT_BLANKS = tuple((role, tuple(phrases.split())) for role, phrases in WITHOUT_BLANKS.items())
_PARTS = (
    ('"', "quotes"), ("{", "braces"), ("|", "bars"), ("->", "arrow"), ("_", "underscore"), ("()", "call"),
    ("%", "percent"),
)  # fmt: skip
_OF_NUMBERS = (
    ("+", "plus"), (" - ", "minus"), ("*", "times"), ("×", "times"), (" / ", "over"), ("=", "equals"), ("^", "power"),
    ("²", "power"), (" x ", "by"),
)  # fmt: skip
_SCRIPTS = ((re.compile("[\u3001-\U0010ffff]"), "no blanks"), (re.compile("[\u0400-\u04ff]"), "cyrillic"))


def named(seen: Features, forms: Collection[str]) -> Iterator[tuple[str, str]]:
    """Table and name of each feature: for training. A name comes as often as it counts."""
    for word in seen.words:
        yield "word", word
        yield from (("affix", affix) for affix in affixes(word))
    yield from (("next", f"{word} {after}") for word, after in set(neighbours(seen.sentences)))
    for table, names in zip(TABLES[3:], (seen.first, seen.last, seen.asks, seen.marks, forms), strict=True):
        yield from ((table, name) for name in names)
