"""What a text asks for: its clauses that begin with a verb, as a reader skims them. Pure.

An ask stands at the beginning of a text or at its end, and what lies between is material: only these two stretches
are read, so the cost has a bound. Lines of code, of diffs and between fences are no asks. "Please write a function that
plans a route" asks to *write* a *function*; that it speaks of plans says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stoker.request.decide import signals as s

HEAD = 1500
TAIL = 600
"""Characters that are read."""
MOST_LEAD = 10
"""Words that may stand before the verb."""
MOST_WORDS = 16
"""Words after the verb among which its object is looked for."""

_SPLIT = re.compile(r"[.!?;:]+(?=\s|$)|\n+")
_WORD = re.compile(r"\w[\w'+#-]*|,")
_STOP = frozenset(["for", "about", "with", "in", "that", "which", "from", "on", "by", "who", "whose", "where", "when", "of", "so", "because"])
_HEADS = frozenset((",", "and", "then", "or", "but"))
_TO = frozenset(("to", "you"))
_TELLERS = frozenset(("i", "we", "i'd"))
_WISHES = frozenset(("need", "want"))
"""I split it: told. I need it split: asked."""


class Ask(NamedTuple):
    """`kind`: what its object is, of `signals.NOUNS`; `noun`: the word; `given`: the object is this one, the one."""

    verb: str
    roles: frozenset[str]
    kind: str = ""
    noun: str = ""
    given: bool = False


class Reading(NamedTuple):
    """`sentences`: words and commas, lower case; `words`: all of them; `shapes`: what was seen beside prose."""

    sentences: tuple[tuple[str, ...], ...]
    words: frozenset[str]
    asks: tuple[Ask, ...]
    shapes: frozenset[str]
    paths: int
    prose: str


def read(text: str) -> Reading:
    """Never raises; looks at no more than HEAD + TAIL characters."""
    shown = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"
    shapes = frozenset(_shapes(shown))
    prose = _prose(shown) if shapes & {"code", "diff", "fence"} else shown
    lower = prose.lower().replace("tl;dr", "tldr").replace("\u2019", "'")
    split = (tuple(_WORD.findall(part)) for part in _SPLIT.split(lower))
    sentences = tuple(words for words in split if words)
    asks = tuple(ask for sentence in sentences for ask in _asks(sentence))
    paths = len(set(s.PATH.findall(prose))) if "/" in prose or "." in prose else 0
    return Reading(sentences, frozenset(w for words in sentences for w in words), asks, shapes, paths, prose)


def _shapes(text: str) -> Iterator[str]:
    if s.FENCE in text:
        yield "fence"
    if s.DIFF.search(text):
        yield "diff"
    if s.CODE.search(text):
        yield "code"
    if s.ERROR.search(text):
        yield "error"


def _prose(text: str) -> str:
    """Without code, but for a line that is both: the rest of it is kept."""
    kept = []
    fenced = False
    for line in text.split("\n"):
        if line.lstrip().startswith(s.FENCE):
            fenced = not fenced
        elif not fenced and not s.DIFF.search(line):
            code = s.CODE.search(line)
            kept.append(line[: code.start()] if code and not _reads(line) else line)
    return "\n".join(kept)


def _reads(line: str) -> bool:
    """A line of at least five words in a row is prose that speaks of code."""
    return _SENTENCE.search(line) is not None


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
    return word in s.LEAD or (word.endswith("ly") and len(word) > 4)


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
