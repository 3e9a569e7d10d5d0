"""What a text asks for: its clauses that begin with a verb, as a reader skims them. Pure.

An ask stands at the beginning of a text or at its end, and what lies between is material: only these two stretches
are read, so the cost has a bound. Lines of code, of diffs and between fences are no asks. "Please write a function that
plans a route" asks to *write* a *function*; that it speaks of plans says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from stoker.request.decide import shapes
from stoker.request.decide import signals as s

HEAD = 600
TAIL = 400
"""Characters that are read."""
FIRST = 6
LAST = 4
"""Sentences that are read closely."""
MOST_LEAD = 10
"""Words that may stand before the verb."""
MOST_WORDS = 16
"""Words after the verb among which its object is looked for."""

_SPLIT = re.compile(r"[.!?;:]+(?=\s|$)|\n+")
_WORD = re.compile(r"\w[\w'+#-]*|,")
_STOP = s.words("for about with in that which from on by who whose where when of so because")
_HEADS = s.words(", and then or but")
_TO = s.words("to you help")
_TELLERS = s.words("i we i'd")
_DOERS = s.words("you we i please")
_WISHES = s.words("need want like")
"""I split it: told. I need it split: asked."""


class Ask(NamedTuple):
    """`kind`: what its object is, of `signals.NOUNS`; `noun`: the word; `given`: the object is this one, the one."""

    verb: str
    roles: frozenset[str]
    kind: str = ""
    noun: str = ""
    given: bool = False


class Reading(NamedTuple):
    """`sentences`: the first and the last, words and commas in lower case; `words`: those of all sentences; `shapes`:
    code, diff, fence, error; `paths`: different files and folders that are named; `prose`: what is left without code.
    """

    sentences: tuple[tuple[str, ...], ...]
    words: frozenset[str]
    asks: tuple[Ask, ...]
    shapes: frozenset[str]
    paths: int
    prose: str


def read(text: str) -> Reading:
    """Never raises; looks at no more than HEAD + TAIL characters."""
    shown = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"
    seen = frozenset(_shapes(shown))
    prose = _prose(shown) if seen & {"code", "diff", "fence"} else shown
    lower = prose.lower().replace("tl;dr", "tldr").replace("code base", "codebase").replace("\u2019", "'")
    split = (tuple(_WORD.findall(part)) for part in _SPLIT.split(lower))
    sentences = tuple(words for words in split if words)
    words = frozenset(chain.from_iterable(sentences))
    sentences = _ends(sentences)
    asks = tuple(ask for sentence in sentences for ask in _asks(sentence))
    paths = (
        0
        if "/" not in prose and "." not in prose
        else sum(1 for word in set(prose.split()) if ("/" in word or "." in word) and shapes.PATH.fullmatch(word))
    )
    return Reading(sentences, words, asks, seen, paths, prose)


def _shapes(text: str) -> Iterator[str]:
    if shapes.FENCE in text:
        yield "fence"
    if ("\n@@" in text or "\n-" in text or "\n+" in text or text[:1] in "d@-+") and shapes.DIFF.search(text):
        yield "diff"
    if (_holds(text, shapes.MARKS) and shapes.MARK.search(text)) or any(
        shapes.LINE.match(line) for line in text.split("\n")
    ):
        yield "code"
    if _holds(text, shapes.ERRORS) and shapes.ERROR.search(text):
        yield "error"


def _holds(text: str, any_of: Sequence[str]) -> bool:
    """Far cheaper than a search, and mostly false."""
    return any(each in text for each in any_of)


def _prose(text: str) -> str:
    """Without code, but for a line that is both: the rest of it is kept."""
    kept = []
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith(shapes.FENCE):
            fenced = not fenced
        elif not fenced and not shapes.DIFF.search(line):
            code = _code(line)
            kept.append(line if code is None or _reads(line) else _led(line[:code]))
    return "\n".join(kept)


def _reads(line: str) -> bool:
    """A line of at least five words in a row is prose that speaks of code."""
    return _SENTENCE.search(line) is not None


def _code(line: str) -> int | None:
    """Where it begins in the line."""
    found = shapes.LINE.match(line) or shapes.MARK.search(line)
    return found.start() if found else None


def _ends(sentences: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    return sentences if len(sentences) <= FIRST + LAST else (*sentences[:FIRST], *sentences[-LAST:])


def _led(before: str) -> str:
    """What leads a line of code, if it is words: "Simplify this condition: ..."."""
    return before if _WORDS.match(before) else ""


_WORDS = re.compile(r"[A-Za-z]{1,20} [a-z]{1,20}\b")
_SENTENCE = re.compile(r"(?:[A-Za-z',]{1,20} ){4}[A-Za-z']")


def _asks(words: Sequence[str]) -> Iterator[Ask]:
    for start in (0, *(at + 1 for at, word in enumerate(words) if word in _HEADS)):
        at = start
        while at < len(words) and at - start < MOST_LEAD and _leads(words, at):
            at += 1
        told = at > start and words[at - 1] in _TELLERS
        if at < len(words) and not (told and words[at] not in _WISHES) and (ask := _ask(words, at)):
            yield ask


def _leads(words: Sequence[str], at: int) -> bool:
    word = words[at]
    if word in _WISHES:
        return at + 1 < len(words) and words[at + 1] in _TO
    if word == "do":
        return at + 1 < len(words) and words[at + 1] in _DOERS
    return word in s.LEAD or (word.endswith("ly") and len(word) > 4 and word not in s.VERBS)


def _ask(words: Sequence[str], at: int) -> Ask | None:
    verb = " ".join(words[at : at + 2])
    roles = s.VERBS.get(verb)
    if roles is None and (far := s.PARTICLES.get(words[at], frozenset()).intersection(words[at + 1 : at + 7])):
        verb = f"{words[at]} {min(far)}"
        roles = s.VERBS.get(verb)
    if roles is None:
        verb = words[at]
        roles = s.VERBS.get(verb)
    if roles is None:
        return None
    kind, noun, given = _object(words, at + 1)
    return Ask(verb, roles, kind, noun, given)


def _object(words: Sequence[str], start: int) -> tuple[str, str, bool]:
    """The first run of nouns after the verb; of a run the last counts."""
    end = min(len(words), start + MOST_WORDS)
    for at in range(start, end):
        if words[at] in _STOP:
            break
        if words[at] in s.NOUNS:
            last = at
            while words[last] not in s.CODE_HEADS and last + 1 < end and words[last + 1] in s.NOUNS:
                last += 1
            given = any(word in ("this", "the", "my", "our", "these") for word in words[start:at])
            return s.NOUNS[words[last]], words[last], given
    return "", "", False
