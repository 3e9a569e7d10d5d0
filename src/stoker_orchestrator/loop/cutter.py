"""Cuts the worker's stream into blocks.

A block ends at the marker, at the end of its fence, where a fence begins, or, if the worker forgets all that, where a
new definition begins and what came before is complete. Text that arrives in pieces is cut as if it had come at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from stoker_orchestrator.loop.blocks import MARKER, WorkerBlock
from stoker_orchestrator.loop.languages import is_document, language_of

MAX_LINES = 400
MAX_CHARACTERS = 16_000
"""About 4,000 tokens."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\r\n]*)$")
_PATH_COMMENT = re.compile(r"[ \t]*(?:#|//|--|;|/\*|<!--)[ \t]*(?:file|path|filename):[ \t]*(\S{1,200})")
_NAMED = re.compile(r"(?:path|file|filename|title)=[\"']?([^\"'\s]{1,200})")
_PATH = re.compile(r"[\w@.\-/\\]*(?:/[\w@.\-/\\]+|\.[A-Za-z0-9]{1,8})$")
_DEFINITION = re.compile(
    r"(?:@|(?:export |pub |public |private |static |async |default )*"
    r"(?:def|class|func|fn|function|interface|struct|enum|impl|trait|type)\b)"
)
_MAX_TRIES = 20
_COMMENT_SIGNS = "#/-*; \t"

IsComplete = Callable[[str, str], bool]
"""`is_complete(language, text)`: the text parses, and holds at least one definition. "" asks for any language."""


class Cutter:
    """Feed it text; it returns the blocks that are complete. Linear in the text, bounded memory."""

    def __init__(self, is_complete: IsComplete) -> None:
        self._is_complete = is_complete
        self._rest = ""
        self._lines: list[str] = []
        self._size = 0
        self._fence: str | None = None
        """What the closing line has to begin with; None: outside of a fence."""
        self._info = ""
        self._opens = False
        self._path = ""
        self._tries = 0
        """How often this block was parsed to find out whether it is complete."""
        self.has_overrun = False
        """A block was longer than allowed: nothing more is cut."""

    @property
    def open_fence(self) -> str | None:
        """What follows the backquotes of the fence that is open; None: none is."""
        return None if self._fence is None else self._info

    def feed(self, text: str) -> list[WorkerBlock]:
        """The blocks that end within this piece."""
        if self.has_overrun:
            return []
        found: list[WorkerBlock] = []
        lines = (self._rest + text).split("\n") if "\n" in text else [self._rest + text]
        self._rest = lines.pop()
        for line in lines:
            if not self.has_overrun:
                self._line(line, found)
        if not self.has_overrun and self._size + len(self._rest) > MAX_CHARACTERS:
            self._overrun(found)
        return found

    def finish(self) -> list[WorkerBlock]:
        """The stream is over: what is left is the last block."""
        found: list[WorkerBlock] = []
        if self.has_overrun:
            return found
        rest, self._rest = self._rest, ""
        if rest:
            self._line(rest, found)
        self._cut(found)
        self._fence = None
        return found

    def _line(self, line: str, found: list[WorkerBlock]) -> None:
        stripped = line.strip()
        if stripped.lstrip(_COMMENT_SIGNS) == MARKER:
            self._cut(found)
            return
        fence = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence is not None and self._is_fence(fence, found):
            return
        if self._lines and _DEFINITION.match(line):
            self._cut_before_definition(found)
        if not self._lines and not self._path:
            self._path = _path_in_comment(line)
        self._lines.append(line)
        self._size += len(line) + 1
        if len(self._lines) > MAX_LINES or self._size > MAX_CHARACTERS:
            self._overrun(found)

    def _is_fence(self, fence: re.Match[str], found: list[WorkerBlock]) -> bool:
        """Whether this line begins or ends a fence. A fence with a label within an open one is text."""
        signs, info = fence[1], fence[2].strip()
        if self._fence is None:
            self._cut(found)
            self._open(signs, info)
            return True
        if not info and signs.startswith(self._fence):
            self._cut(found)
            self._fence, self._path = None, ""
            return True
        if info and not self._lines:  # the fence before was never closed
            self._open(signs, info)
            return True
        return False

    def _open(self, signs: str, info: str) -> None:
        self._fence, self._info, self._opens = signs, info, True
        self._path = _path_in_info(info)

    def _cut_before_definition(self, found: list[WorkerBlock]) -> None:
        """End the block if it is complete. Comments and decorators right above the new definition go with that."""
        end = len(self._lines)
        while end and self._lines[end - 1].startswith(("#", "//", "@")):
            end -= 1
        if not end or self._tries >= _MAX_TRIES:
            return
        self._tries += 1
        if self._is_complete(self._language(), "\n".join(self._lines[:end]) + "\n"):
            above = self._lines[end:]
            del self._lines[end:]
            self._cut(found)
            self._lines, self._size = above, sum(len(line) + 1 for line in above)

    def _language(self) -> str:
        return language_of(self._path, self._info, self._lines) if self._fence is not None else ""

    def _cut(self, found: list[WorkerBlock], is_too_long: bool = False) -> None:
        lines, self._lines, self._size, self._tries = self._lines, [], 0, 0
        if not any(line.strip() for line in lines):
            return
        text = "\n".join(lines) + "\n"
        if self._fence is not None:
            opens, self._opens = self._opens, False
            info = self._info
            language = language_of(self._path, info, lines)
            block = WorkerBlock(text, True, language, self._path, info, True, opens, is_too_long)
        elif self._is_complete("python", text):
            block = WorkerBlock(text, True, "python", self._path, is_too_long=is_too_long)
            self._path = ""
        elif bare := language_of(self._path, "", lines):
            block = WorkerBlock(text, not is_document(bare), bare, self._path, is_too_long=is_too_long)
            self._path = ""
        else:
            block = WorkerBlock(text, is_too_long=is_too_long)
            self._path = ""
        found.append(block)

    def _overrun(self, found: list[WorkerBlock]) -> None:
        """Prose is cut there; code is of no use if it is not whole."""
        rest, self._rest = self._rest, ""
        self._lines += [rest] if rest else []
        self.has_overrun = self._fence is not None
        self._cut(found, is_too_long=self.has_overrun)


def _path_in_info(info: str) -> str:
    """The file that a fence names: `python app/x.py`, `python:app/x.py`, `python title="app/x.py"`."""
    named = _NAMED.search(info)
    if named is not None:
        return named[1]
    for word in info.replace(":", " ").split()[1:]:
        if _PATH.match(word):
            return word
    return ""


def _path_in_comment(line: str) -> str:
    found = _PATH_COMMENT.match(line)
    return "" if found is None else found[1]
