"""Code in closed fences that say their language. A snippet is no file: only what no reading allows is proved wrong.

python   a bracket or a string that is not closed, in something that has a definition or an import. Not judged: `...`,
         prompts of a shell or a notebook, old Python, what a newer Python may read
json     starts like a document, and is neither JSON nor lines of it. Not judged: `...`, comments, placeholders
diff     hunks that are not as long as they say

Format of diffs: https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html. Blank lines count as
context whose blank was trimmed, and may be left over at the end of a hunk. A hunk with `...` is shortened on purpose.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping

from stoker_content.verify.fences import CodeBlock
from stoker_content.verify.finding import AnswerFinding, proved
from stoker_content.verify.schema import InvalidJson, read_json

_BRACKETS = re.compile(r"[()\[\]{}]")
_CLOSES = {")": "(", "]": "[", "}": "{"}
_JSON_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*+"?')
"""A string that is not closed ends with its line: were it no match, each quote in it would be tried anew."""
_PYTHON_TEXT = re.compile(
    r"\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|\"(?:[^\"\\\n]|\\.)*+\"?|'(?:[^'\\\n]|\\.)*+'?|#[^\n]*",
    re.DOTALL,
)


def without_json_strings(text: str) -> str:
    return _JSON_STRING.sub('""', text)


def without_python_text(text: str) -> str:
    """Without strings and comments, as far as a string does not hold its own quotes (f-strings since 3.12)."""
    return _PYTHON_TEXT.sub("''", text)


def nesting(text: str) -> int:
    """How many brackets are open at once at the most. Bounds from above, also where some stand in strings."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def are_matched(text: str) -> bool:
    """Whether each bracket has its partner."""
    still_open: list[str] = []
    for bracket in _BRACKETS.findall(text):
        if bracket not in _CLOSES:
            still_open.append(bracket)
        elif not still_open or still_open.pop() != _CLOSES[bracket]:
            return False
    return not still_open


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


MAX_PYTHON = 64 * 1024
"""Characters: the parser takes some milliseconds for each 10,000."""
MAX_NESTING = 40
_ELLIPSIS = re.compile(r"\.\.\.|…")
_FOREIGN = re.compile(r"^[ \t]*(?:[!%$?]|>>>|In \[)", re.MULTILINE)
_WHOLE = re.compile(r"^(?:from|import|def|class|async def|@)\b", re.MULTILINE)
_MANY_QUOTES = re.compile(r"^.*\b[rR]?[fFtT][rR]?[\"'].*[\"'].*[\"']", re.MULTILINE)
"""An f-string in a line with more than two quotes."""
_PROOFS = (
    "was never closed", "unterminated string literal", "unterminated triple-quoted string literal", "unmatched '",
    "does not match opening parenthesis", "f-string: expecting '}'", "f-string: single '}' is not allowed",
)  # fmt: skip
"""Messages of CPython's parser since 3.10 for what is wrong in every version of the language."""
_COMMENT = re.compile(r"//|/\*|#|<")
_TRAILING_COMMA = re.compile(r",(?=\s{0,200}[\]}])")


def check_block(block: CodeBlock) -> list[AnswerFinding]:
    kind = _LABELS.get(block.label)
    return [proved(kind)] if kind is not None and _WRONG[kind](block.text) else []


def _is_wrong_python(text: str) -> bool:
    if len(text) > MAX_PYTHON or _ELLIPSIS.search(text) or _FOREIGN.search(text):
        return False
    text = textwrap.dedent(text)
    if not _WHOLE.search(text) or nesting(text) > MAX_NESTING:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would show the text
            ast.parse(text)
    except SyntaxError as error:
        return _is_proof(error, text)
    except (ValueError, MemoryError, RecursionError):
        return False
    return False


def _is_proof(error: SyntaxError, text: str) -> bool:
    """Whether no version of Python reads it.

    1. strings within an f-string's braces  -> not known: since 3.12 they may have its quotes (PEP 701)
    2. a message about brackets or strings  -> yes
    3. an f-string's braces                 -> yes
    4. brackets that do not match           -> yes
    """
    if _MANY_QUOTES.search(text):
        return False  # 1
    if any(proof in error.msg for proof in _PROOFS):
        return True  # 2, 3
    return not are_matched(without_python_text(text))  # 4


def _is_wrong_json(text: str) -> bool:
    """
    1. `...`, comments, placeholders            -> not judged
    2. no document: what stands in an object    -> wrong if its brackets do not match
    3. JSON, or JSON in each line               -> right
    4. with commas too many, as some tools take -> not judged
    """
    text = text.strip()
    bare = without_json_strings(text)
    if not text or _ELLIPSIS.search(text) or _COMMENT.search(bare):
        return False  # 1
    if text[0] not in "{[":
        return not are_matched(bare)  # 2
    if read_json(text) is not InvalidJson.SYNTAX:
        return False  # 3
    if all(read_json(line) is not InvalidJson.SYNTAX for line in text.split("\n") if line.strip()):
        return False
    return read_json(_TRAILING_COMMA.sub("", text)) is InvalidJson.SYNTAX  # 4


_WRONG: Mapping[str, Callable[[str], bool]] = {
    "python": _is_wrong_python,
    "json_fence": _is_wrong_json,
    "diff": has_wrong_hunk,
}
_LABELS: Mapping[str, str] = {
    "python": "python",
    "py": "python",
    "python3": "python",
    "json": "json_fence",
    "diff": "diff",
    "patch": "diff",
}
