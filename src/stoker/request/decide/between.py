"""Which sentences may be a request in the middle of a long text: what people paste stands around them. Pure.

1. A line that begins with no letter, or as more than `MOST_ALIKE` lines do, is of a log, of code or of data.
2. If most lines are such, the text is machine output, and a person wrote every other line that reads like a sentence.
3. Otherwise the text is prose, and of prose only sentences count that begin with a verb of the tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from stoker.request.decide import shapes
from stoker.request.decide import verbs as s

MOST_ASKED = 6
LONGEST_ASKED = 240
"""Sentences that are picked, and characters of each."""
SHORTEST = 8
"""Characters that a request has at least."""
MOST_ALIKE = 3
"""Lines that begin with the same word."""
_ENDS = re.compile(r"(?<=[.!?:;。！？])\s+")
_WORDS = re.compile(r"(?:[^\W\d_][\w'\u2019-]*[,:]? ){3}|[\u3041-\U0010ffff]{6}")
"""Three words in a row, or what is written without blanks."""
_MACHINE_SHARE = 0.5
_POLITE = s.words("please pls plz bitte kannst konntest puedes podrias peux pouvez puoi pode could can пожалуйста")
_OPENERS = frozenset(verb.split()[0] for verb in s.VERBS) | _POLITE


class Found(NamedTuple):
    """`sentences`: at most MOST_ASKED, in their order; `machine`: what surrounds them is machine output."""

    sentences: tuple[str, ...]
    machine: bool
    alike: Counter[str]

    def said(self, part: str) -> str:
        """Of a part of the text beside them, the lines that a person wrote."""
        lines = [line for line in part.split("\n") if line[:1].isalpha()]
        return "\n".join(_sentences([line for line in lines if _is_said(line, self.alike)]))


def between(text: str, head: int, tail: int) -> Found:
    """What asks for something beyond the first `head` and before the last `tail` characters."""
    first, *lines = text[_line_at(text, head) : -tail].split("\n")
    lines = [first if len(first) <= LONGEST_ASKED else _ENDS.split(first, 1)[-1], *lines]
    plain = [line for line in lines if len(line) > SHORTEST and line[:1].isalpha()]
    alike = Counter([line[:6] for line in plain])
    said = [line for line in plain if _is_said(line, alike)]
    is_machine = len(said) < _MACHINE_SHARE * len(list(filter(None, lines)))
    found = _sentences(said) if is_machine else _asking(said)
    return Found(tuple(sentence[:LONGEST_ASKED] for sentence in islice(found, MOST_ASKED)), is_machine, alike)


def _line_at(text: str, place: int) -> int:
    """Where the line begins that `place` cuts, if it is short: half of a request is none."""
    begins = text.rfind("\n", max(0, place - LONGEST_ASKED), place) + 1
    return begins or place


def _is_said(line: str, alike: Counter[str]) -> bool:
    return alike[line[:6]] <= MOST_ALIKE and _WORDS.match(line) is not None


def _sentences(lines: Sequence[str]) -> Iterator[str]:
    return (line for line in lines if not shapes.LINE.match(line) and not shapes.MARK.search(line))


def _asking(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        for sentence in _parts(line) if len(line) > LONGEST_ASKED / 4 else (line,):
            opening = sentence[:24].lstrip().split(" ", 1)[0].rstrip(",").lower()
            if (opening if opening.isascii() else s.plain(opening)) in _OPENERS and len(sentence) > SHORTEST:
                yield sentence


def _parts(line: str) -> Sequence[str]:
    """Its sentences. Of ASCII without an expression, which would take ten times as long."""
    if not line.isascii():
        return _ENDS.split(line)
    return line.replace("! ", ". ").replace("? ", ". ").replace(": ", ". ").split(". ")
