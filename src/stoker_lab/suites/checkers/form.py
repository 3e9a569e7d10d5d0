"""Checks of the form of a text: lines, bullets, words, case. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from stoker.domain.answer import Answer
from stoker.domain.figures import counted
from stoker_lab.suites.check_kinds import FormatCheck
from stoker_lab.suites.checkers.plain_text import PASSED, Grade, answer_text, has_phrase

_BULLET = re.compile(r"\s*[-*\u2022]\s+\S")
_NUMBERED = re.compile(r"\s*\d{1,3}[.)]\s+\S")
_END = re.compile(r"[.!?]+[\"')\u201d]*(?=\s|$)")

COUNTS: dict[str, Callable[[str], int]] = {
    "lines": lambda text: len(_lines(text)),
    "bullets": lambda text: sum(bool(_BULLET.match(line)) for line in _lines(text)),
    "numbered": lambda text: sum(bool(_NUMBERED.match(line)) for line in _lines(text)),
    "paragraphs": lambda text: len([part for part in re.split(r"\n\s*\n", text) if part.strip()]),
    "sentences": lambda text: len(_END.findall(text)),
}
"""Fields of FormatCheck that require an exact count."""


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def check_format(check: FormatCheck, answer: Answer) -> Grade:
    """1. counts  2. words  3. case  4. beginning and end  5. words that must, and must not be there."""
    text = answer_text(answer)
    for name, count in COUNTS.items():  # 1
        wanted = getattr(check, name)
        if wanted is not None and (found := count(text)) != wanted:
            return Grade(False, f"{found} {name}, {wanted} wanted")
    words = len(text.split())  # 2
    low, high = check.min_words or 0, check.max_words if check.max_words is not None else words
    if not low <= words <= high:
        return Grade(False, f"{counted(words, 'word')}, {low} to {high} wanted")
    bad = _case(check, text) or _ends(check, text)
    if bad:
        return Grade(False, bad)
    if missing := [word for word in check.must if not has_phrase(text, word)]:  # 5
        return Grade(False, f"misses '{missing[0]}'")
    if there := [word for word in check.must_not if has_phrase(text, word)]:
        return Grade(False, f"holds '{there[0]}'")
    return PASSED


def _case(check: FormatCheck, text: str) -> str:
    wanted = {"upper": text.upper(), "lower": text.lower(), None: text}[check.case]  # 3
    has_letters = any(letter.isalpha() for letter in text)
    return "" if check.case is None or (text == wanted and has_letters) else f"not all in {check.case} case"


def _ends(check: FormatCheck, text: str) -> str:
    if not text.casefold().startswith(check.starts.casefold()):  # 4
        return f"does not begin with '{check.starts}'"
    return "" if text.casefold().endswith(check.ends.casefold()) else f"does not end with '{check.ends}'"
