"""What a check found."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

CHECKS = {
    "unknown_tool": "a call of a tool that was not offered",
    "arguments": "arguments that are not a JSON object",
    "missing_key": "arguments without a required key",
    "schema": "arguments that violate the tool's schema",
    "schema_unchecked": "a schema that could not be checked completely",
    "duplicate_id": "two calls with one id",
    "call_missing": "no call where one was required",
    "call_forbidden": "a call where none was allowed, or of another tool than the named one",
    "parallel_calls": "several calls where one at a time was asked for",
    "repeated_call": "the same call as in the last two turns",
    "json": "no JSON where JSON was asked for",
    "json_schema": "JSON that violates the requested schema",
    "too_deep": "JSON that is nested too deeply to be read",
    "too_large": "more than can be held back",
    "empty": "an empty answer",
    "only_thinking": "thinking, and no answer",
    "leaked_marker": "a marker of the chat template in the text",
    "replacement": "characters that were lost (U+FFFD)",
    "loop": "the end repeats itself",
    "truncated": "cut off in the middle",
    "length": "cut off by the caller's own limit, or at the end of a sentence",
    "open_fence": "a block of code that is not closed",
    "python": "Python that no version can read",
    "json_fence": "a block labelled JSON that is not JSON",
    "diff": "a hunk whose length differs from its header",
    "edit": "a search/replace block that is not complete",
    "edit_unknown": "a search/replace block for text that is not in the prompt",
    "unfinished": "the answer stopped without a reason",
}
"""Every check, and what it finds."""


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
