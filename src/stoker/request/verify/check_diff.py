"""Hunks of unified diffs: as many lines as their headers say.

Format: https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html. Blank lines count as
context whose blank was trimmed, and may be left over at the end of a hunk. A hunk with `...` is shortened on purpose.
"""

from __future__ import annotations

import re

_HEADER = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")
_ELIDED = re.compile(r"[ +-]?\s*(?:[#/*<!-]+\s*)?(?:\.\.\.|…)")


class _Hunk:
    """`old` and `new`: how many lines are still to come."""

    __slots__ = ("blanks", "is_elided", "is_over", "new", "old")

    def __init__(self, old: int, new: int) -> None:
        self.old = old
        self.new = new
        self.blanks = 0
        """Blank lines right before this place."""
        self.is_elided = False
        self.is_over = False

    def takes(self, line: str) -> bool:
        """Whether the line belongs to it; one too many makes both counts negative at the most."""
        sign = line[:1]
        if sign not in ("", " ", "+", "-", "\\"):
            return False
        self.is_elided = self.is_elided or _ELIDED.match(line) is not None
        if not line.strip():
            self.blanks += 1
        elif sign != "\\":
            self.blanks = 0
        self.old -= sign in ("", " ", "-")
        self.new -= sign in ("", " ", "+")
        return True

    def is_wrong(self) -> bool:
        """At its end: trailing blank lines may have been left over."""
        if self.is_elided or (self.old == 0 and self.new == 0):
            return False
        extra = -self.old
        return not (self.old == self.new and 0 < extra <= self.blanks)


def has_wrong_hunk(text: str) -> bool:
    """Whether a hunk is shorter or longer than it says. Linear."""
    lines = text.removesuffix("\n").split("\n")
    hunk: _Hunk | None = None
    for at, line in enumerate(lines):
        header = _HEADER.match(line)
        if hunk is not None and (header is not None or _is_file_header(lines, at, hunk) or not hunk.takes(line)):
            if hunk.is_wrong():
                return True
            hunk = None
        if header is not None:
            hunk = _Hunk(int(header[1] or 1), int(header[2] or 1))
    return hunk is not None and hunk.is_wrong()


def _is_file_header(lines: list[str], at: int, hunk: _Hunk) -> bool:
    """`--- a` with `+++ b` and a hunk below it; or a mail's signature below the last hunk."""
    line, *below = lines[at : at + 3]
    if line.rstrip() == "--":
        return hunk.old <= 0
    return line.startswith("--- ") and len(below) == 2 and below[0].startswith("+++ ") and below[1].startswith("@@ ")
