"""What a check found."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from stoker.domain.answer_check import CHECKS


class AnswerState(StrEnum):
    OPEN = "open"
    """It is not finished."""
    PASSED = "passed"
    FAILED = "failed"


class AnswerFinding(NamedTuple):
    """One thing that is wrong, or may be. It holds nothing of the prompt or the answer but the name of an offered tool.

    check      a key of CHECKS
    is_proved  the answer fails; False: the finding is only noted
    text       one short clause for a person
    """

    check: str
    is_proved: bool
    text: str


def proved(check: str, text: str = "") -> AnswerFinding:
    return AnswerFinding(check, True, text or CHECKS[check])


def noted(check: str, text: str = "") -> AnswerFinding:
    return AnswerFinding(check, False, text or CHECKS[check])
