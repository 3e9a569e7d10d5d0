"""Which lines of an answer are prose, and which are code in fences.

Two readings run side by side, because models nest fences of the same length, which CommonMark does not know:
a labelled fence within an open block is text for CommonMark (https://spec.commonmark.org/0.31.2/#fenced-code-blocks),
and opens another level for the second reading. A block whose readings differ is not judged. Unlike CommonMark, a fence
may be indented by any number of blanks: models write them into lists. And tildes right below a line of text open
nothing: they underline a heading in reStructuredText.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stoker_content.verify.text_buffer import TextBuffer

MAX_BLOCK = 256 * 1024
"""Characters of a block that are kept; a longer one is not judged."""
_FENCE = re.compile(r"[ \t]*+(`{3,}+|~{3,}+)[ \t]*+([^`\r\n]*+)$")
"""Possessive: a line of 64 KB must not be tried in every division."""


class CodeBlock(NamedTuple):
    """A closed block of code. `label`: the first word after the fence, in lower case."""

    label: str
    text: str


class Fences:
    """Feed it the lines, without their ends."""

    __slots__ = ("_depth", "_fence", "_has_inner", "_indent", "_is_below_text", "_kept", "_label", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._depth = 0
        """Of the second reading."""
        self._fence = ""
        self._indent = 0
        self._is_below_text = False
        self._label = ""
        self._has_inner = False
        self._kept = TextBuffer()

    @property
    def is_left_open(self) -> bool:
        """Whether both readings are within a block."""
        return self.is_open and self._depth > 0

    def passes_blank(self) -> bool:
        """A blank line is taken in, if it is prose; else it has to be given as any other."""
        self._is_below_text = False
        return not self.is_open

    def line(self, line: str) -> CodeBlock | None:
        """The block that this line closed, if it may be judged. `is_open` is then about what follows."""
        found = _FENCE.match(line)
        is_heading = self._is_below_text and not self.is_open and not line.strip("~ \t")
        self._is_below_text = found is None and bool(line.strip())
        if found is not None and not is_heading:
            return self._at_fence(found[1], found[2].strip(), len(line) - len(line.lstrip()), line)
        if self.is_open:
            self._keep(line)
        return None

    def _at_fence(self, fence: str, label: str, indent: int, line: str) -> CodeBlock | None:
        self._depth = max(0, self._depth + (1 if label or not self._depth else -1))
        if not self.is_open:
            self.is_open, self._fence, self._indent = True, fence, indent
            self._label, self._has_inner = label.split(" ")[0].lower(), False
            self._kept.drop()
            return None
        if label or not fence.startswith(self._fence):
            self._has_inner = True
            self._keep(line)
            return None
        self.is_open = False
        is_whole = not self._has_inner and self._kept.size <= MAX_BLOCK
        return CodeBlock(self._label, self._kept.text()) if is_whole else None

    def _keep(self, line: str) -> None:
        if self._kept.size > MAX_BLOCK:
            return
        blanks = len(line) - len(line.lstrip(" \t"))
        self._kept.add(line[min(blanks, self._indent) :] + "\n")
