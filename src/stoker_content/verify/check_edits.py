"""Search/replace blocks, as editing agents ask for them: are they complete, and is what they look for known?

The three lines of a block are those of aider (https://aider.chat/docs/more/edit-formats.html, `diff`) and of Cline,
which writes dashes and pluses. Blocks are judged only if the request speaks of them.
"""

from __future__ import annotations

import re
from enum import Enum

from stoker_content.verify.expectation import Expectation
from stoker_content.verify.finding import AnswerFinding, noted, proved
from stoker_content.verify.text_buffer import TextBuffer

MAX_SEARCH = 64 * 1024
"""Characters of what a block looks for; a longer one is not looked up."""
MAX_LOOKUPS = 200
"""Blocks of one answer that are looked up."""
HEADS = ("<<<<<<< SEARCH", "------- SEARCH")
_HEAD = re.compile(r"(?:<{5,9}|-{5,9}) SEARCH>?\s*$")
_DIVIDER = re.compile(r"={5,9}\s*$")
_FOOT = re.compile(r"(?:>{5,9}|\+{5,9}) REPLACE>?\s*$")


class _At(Enum):
    OUTSIDE = "outside"
    SEARCH = "search"
    REPLACE = "replace"


class EditCheck:
    """Feed it all lines, without their ends."""

    __slots__ = ("_at", "_expected", "_lookups", "_search")

    def __init__(self, expected: Expectation) -> None:
        self._expected = expected
        self._at = _At.OUTSIDE
        self._search = TextBuffer()
        self._lookups = 0

    @property
    def is_open(self) -> bool:
        return self._at is not _At.OUTSIDE

    def line(self, line: str) -> list[AnswerFinding]:
        """
        1. a head       -> a block begins; the one before it had to be complete
        2. a divider    -> what is looked for ends
        3. a foot       -> the block ends; without a divider it is not complete
        """
        if line[:1] not in "<-=>+":
            return self._body(line)
        if _HEAD.match(line):
            was_open = self.is_open
            if was_open or any(self._expected.mentions(head) for head in HEADS):
                self._at = _At.SEARCH  # 1
                self._search.drop()
            return [proved("edit")] if was_open else []
        if self._at is _At.SEARCH and _DIVIDER.match(line):
            self._at = _At.REPLACE  # 2
            return self._look_up()
        if self.is_open and _FOOT.match(line):
            was_whole = self._at is _At.REPLACE
            self._at = _At.OUTSIDE  # 3
            return [] if was_whole else [proved("edit")]
        return self._body(line)

    def _body(self, line: str) -> list[AnswerFinding]:
        if self._at is _At.SEARCH and self._search.size <= MAX_SEARCH:
            self._search.add(line + "\n")
        return []

    def _look_up(self) -> list[AnswerFinding]:
        self._lookups += 1
        is_skipped = self._search.size > MAX_SEARCH or self._lookups > MAX_LOOKUPS
        is_known = is_skipped or self._expected.shows(self._search.text())
        return [] if is_known else [noted("edit_unknown")]
