"""Checks of what is said: copies, words, numbers, needles, facts, the number of a line. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from stoker.domain.answer import Answer
from stoker.domain.prompt import Text
from stoker_lab.suites.check_kinds import (
    ContainsCheck,
    CopyCheck,
    ExactCheck,
    FactsCheck,
    LineCheck,
    NeedleCheck,
    NumberCheck,
)

_NUMBER = re.compile(r"(?<![\w.,])[-\u2212]?\d[\d,]*(?:\.\d+)?")
_STRONG = re.compile(r"\\boxed\{([^{}]*)\}|\*\*([^*\n]+)\*\*")
_LINE = re.compile(r"\bline\W{0,4}(\d+)", re.IGNORECASE)
_QUOTES = ('""', "''", "``", "\u201c\u201d", "\u2018\u2019", "\u00ab\u00bb", "\u201e\u201c")
_MARKS = " \t\n.,;:!*`'\"\u201c\u201d\u2018\u2019()[]"


class Grade(NamedTuple):
    passed: bool
    reason: str = ""
    """Why not, in a few words."""


PASSED = Grade(True)


def answer_text(answer: Answer) -> str:
    """The text that a reader sees, composed characters, no space around it."""
    text = "".join(block.text for block in answer.blocks if isinstance(block, Text))
    return unicodedata.normalize("NFC", text).strip()


def quoted(text: str, most: int = 40) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= most else flat[: most - 3] + "...")


def find_phrase(text: str, phrase: str, start: int = 0) -> int:
    """Where a whole word or phrase begins, without regard to case and the width of spaces; -1: nowhere."""
    parts = [re.escape(part) for part in phrase.casefold().split()]
    found = re.compile(r"(?<!\w)" + r"\s+".join(parts) + r"(?!\w)").search(text.casefold(), start)
    return -1 if found is None else found.start()


def has_phrase(text: str, phrase: str) -> bool:
    return find_phrase(text, unicodedata.normalize("NFC", phrase)) >= 0


# -- the checks ----------------------------------------------------------------------------------------------------


def check_copy(check: CopyCheck, answer: Answer) -> Grade:
    """1. the same  2. the same in quotes  3. with a full stop after it."""
    text, wanted = answer_text(answer), unicodedata.normalize("NFC", check.text).strip()
    forms = [text]
    if text[:1] + text[-1:] in _QUOTES and len(text) > 1:  # 2
        forms.append(text[1:-1].strip())
    forms += [form[:-1] for form in forms if form.endswith(".")]  # 3
    return PASSED if wanted in forms else Grade(False, f"not an exact copy: {quoted(text)}")


def check_contains(check: ContainsCheck, answer: Answer) -> Grade:
    text = answer_text(answer)
    if bad := next((word for word in check.none if has_phrase(text, word)), None):
        return Grade(False, f"holds {quoted(bad)}")
    if check.any and not any(has_phrase(text, word) for word in check.any):
        return Grade(False, f"holds none of {len(check.any)} words: {quoted(text)}")
    at = 0
    for word in check.all:
        place = find_phrase(text, unicodedata.normalize("NFC", word), at)
        if place < 0:
            return Grade(False, f"misses {quoted(word)}: {quoted(text)}")
        at = place + 1 if check.ordered else 0
    return PASSED


def check_number(check: NumberCheck, answer: Answer) -> Grade:
    found = _result(answer_text(answer))
    if found is None:
        return Grade(False, f"not a number: {quoted(answer_text(answer))}")
    return PASSED if found == Decimal(check.value) else Grade(False, f"{found} instead of {check.value}")


def _result(text: str) -> Decimal | None:
    """1. the first line, if it is a number  2. what is boxed or bold, the last of it  3. the last number."""
    first = text.split("\n", 1)[0].strip(_MARKS)
    if _NUMBER.fullmatch(first):  # 1
        return _decimal(first)
    for part in reversed(_STRONG.findall(text)):  # 2
        if found := _NUMBER.findall("".join(part)):
            return _decimal(found[-1])
    found = _NUMBER.findall(text)  # 3
    return _decimal(found[-1]) if found else None


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text.replace(",", "").replace("\u2212", "-"))
    except InvalidOperation:
        return None


def check_exact(check: ExactCheck, answer: Answer) -> Grade:
    """1. the whole text  2. the rest of the line after the last `Answer:`."""
    text = answer_text(answer)
    tail = re.split(r"answer\W*:", text, flags=re.IGNORECASE)[-1].strip(_MARKS).split("\n", 1)[0]
    wanted = {_bare(value) for value in check.values}
    return PASSED if wanted & {_bare(text), _bare(tail)} else Grade(False, f"not an accepted answer: {quoted(tail)}")


def _bare(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).strip(_MARKS).casefold().split())


def check_needle(check: NeedleCheck, answer: Answer) -> Grade:
    text = answer_text(answer)
    if not has_phrase(text, check.value):
        return Grade(False, f"not found: {quoted(text)}")
    if wrong := next((decoy for decoy in check.decoys if has_phrase(text, decoy)), None):
        return Grade(False, f"also named {quoted(wrong)}")
    return PASSED


def check_facts(check: FactsCheck, answer: Answer) -> Grade:
    text = answer_text(answer)
    kept = sum(any(has_phrase(text, wording) for wording in fact) for fact in check.facts)
    return PASSED if kept >= check.least else Grade(False, f"{kept} of {len(check.facts)} facts, {check.least} wanted")


def check_line(check: LineCheck, answer: Answer) -> Grade:
    """1. the lines that it calls so  2. if none, the numbers that could be one. There has to be one, and the right."""
    text = answer_text(answer)
    named = [int(found) for found in _LINE.findall(text)]  # 1
    numbers = named or [int(found) for found in re.findall(r"(?<![\w.])\d{1,6}(?![\w])", text)]  # 2
    places = sorted({value for value in numbers if 1 <= value <= check.of})
    return PASSED if places == [check.line] else Grade(False, f"{_listed(places)} instead of line {check.line}")


def _listed(places: Sequence[int]) -> str:
    return f"line {', '.join(map(str, places[:4]))}" if places else "no line"
