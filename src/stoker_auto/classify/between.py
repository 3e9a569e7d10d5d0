"""Which sentences in the middle of a long text may be a request: pasted material surrounds them. Pure.

1. A line belongs to a log, to code or to data if it does not begin with words, or begins like more than `MOST_ALIKE`
   other lines.
2. If most lines are of that kind, the text is machine output. A person wrote the other lines that read like sentences.
3. Otherwise the text is prose. Only its sentences that begin with a verb of the tables count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from stoker_auto.classify import shapes
from stoker_auto.classify import verbs as s
from stoker_auto.classify.languages import WITHOUT_BLANKS

MOST_ASKED = 3
LONGEST_ASKED = 160
"""Sentences that are picked, and characters of each, ..."""
LONGEST_DENSE = 80
"""... and of one that is written without blanks."""
SHORTEST = 8
"""Characters that a request has at least."""
MOST_ALIKE = 3
"""Lines that begin with the same word."""
WRITTEN_WITHOUT_BLANKS = "\u3000"
"""Scripts without blanks have letters beyond this character."""
_ENDS = re.compile(r"(?<=[.!?:;。！？])\s+")
_WORD = r"[^\W\d_][\w'\u2019-]*+[,:]?+ "
_SAID = re.compile(rf"\n((?:{3 * _WORD}|[\u3041-\U0010ffff]{{6}})[^\n]*)")
"""A line that begins with three words in a row, or with six letters of a script without blanks."""
_MACHINE_SHARE = 0.5
_POLITE = s.words("please pls plz bitte kannst konntest puedes podrias peux pouvez puoi pode could can пожалуйста")
_OPENERS = frozenset(verb.split()[0] for verb in s.VERBS) | _POLITE
_OPENINGS = frozenset(word.encode() for verb in _OPENERS for word in (verb, f"{verb},"))
_STOPS = bytes.maketrans(b"!?:ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"...abcdefghijklmnopqrstuvwxyz")
"""Maps every mark that ends a sentence to a stop, and letters to lower case."""
_OPENING = re.compile(rb"\. \s*([^ .]*)")
"""The word with which a sentence begins."""
_WIDE_STOPS = "。！？：；"
"""Marks that end a sentence without a blank after them."""
_HOLDS_ASK = re.compile("|".join(dict.fromkeys(" ".join(WITHOUT_BLANKS.values()).split())))


_NONE_ALIKE: Counter[str] = Counter()


class AskingSentences(NamedTuple):
    """`sentences`: at most MOST_ASKED, in their order; `machine`: what surrounds them is machine output."""

    sentences: tuple[str, ...]
    machine: bool
    alike: Counter[str]

    def by_person(self, part: str) -> str:
        """The lines of `part`, a part of the text outside these sentences, that a person wrote."""
        return "\n".join(_sentences(_unlike(_SAID.findall(f"\n{part}"), self.alike)))


def between(text: str, head: int, tail: int) -> AskingSentences:
    """The sentences that ask for something, between the first `head` and the last `tail` characters."""
    part = f"\n{_from_sentence(text[_line_at(text, head) : -tail])}"
    lines = _SAID.findall(part)
    begins = [line[:6] for line in lines]
    alike = Counter(begins) if len(lines) - len(set(begins)) >= MOST_ALIKE else _NONE_ALIKE
    said = _unlike(lines, alike)
    is_machine = _is_machine(part, len(said))
    found = _sentences(said) if is_machine else _asking(said)
    return AskingSentences(tuple([_bounded(sentence) for sentence in islice(found, MOST_ASKED)]), is_machine, alike)


def _bounded(sentence: str) -> str:
    return sentence[: LONGEST_DENSE if sentence[:1] > WRITTEN_WITHOUT_BLANKS else LONGEST_ASKED]


def _is_machine(part: str, said: int) -> bool:
    """Whether most of its lines, empty ones aside, are not among those that were `said`."""
    lines = part.count("\n")
    return said < _MACHINE_SHARE * lines and said < _MACHINE_SHARE * (lines - part.count("\n\n"))


def _line_at(text: str, place: int) -> int:
    """The beginning of the line that `place` cuts, if that line is short: half of a request is not a request."""
    begins = text.rfind("\n", max(0, place - LONGEST_ASKED), place) + 1
    return begins or place


def _from_sentence(part: str) -> str:
    """`part` without what may be the second half of a sentence."""
    if "\n" in part[: LONGEST_ASKED + 1]:
        return part
    return _ENDS.split(part, 1)[-1]


def _unlike(lines: Sequence[str], alike: Counter[str]) -> Sequence[str]:
    return [line for line in lines if alike[line[:6]] <= MOST_ALIKE] if alike else lines


def _sentences(lines: Sequence[str]) -> Iterator[str]:
    return (line for line in lines if not shapes.LINE.match(line) and not shapes.MARK.search(line))


def _asking(lines: Sequence[str]) -> Iterator[str]:
    said = ". ".join(lines)
    for mark in "" if said.isascii() else _WIDE_STOPS:
        said = said.replace(mark, ". ")
    block = said.encode(errors="replace")
    plain = b". " + block.translate(_STOPS)
    for found in _OPENING.finditer(plain):
        opening = found[1]
        is_opening = opening in _OPENINGS
        if not is_opening and opening.isascii():
            continue
        begin = found.start() + 2
        shown = block[begin - 2 : _end(plain, begin) - 2].decode()
        if len(shown) >= SHORTEST and (is_opening or _asks_otherwise(shown)):
            yield shown


def _end(plain: bytes, begin: int) -> int:
    end = plain.find(b". ", begin)
    return len(plain) if end < 0 else end


def _asks_otherwise(sentence: str) -> bool:
    opening = sentence.lstrip().partition(" ")[0].rstrip(",").lower()
    if opening[:1] > WRITTEN_WITHOUT_BLANKS:
        return _HOLDS_ASK.search(sentence, 0, LONGEST_ASKED) is not None
    return s.plain(opening) in _OPENERS
