"""Code in closed fences that say their language. A snippet is no file: only what no reading allows is proved wrong.

python   a bracket or a string that is not closed, in something that has a definition or an import. Not judged: `...`,
         prompts of a shell or a notebook, old Python, what a newer Python may read
json     starts and ends like a document, and is neither JSON nor lines of it. Not judged: `...`, comments, placeholders
diff     hunks that are not as long as they say
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping

from stoker.request.verify.check_diff import has_wrong_hunk
from stoker.request.verify.fences import Block
from stoker.request.verify.finding import Finding, proved
from stoker.request.verify.json_value import Broken, read_json

MAX_PYTHON = 64 * 1024
"""Characters: the parser takes some milliseconds for each 10,000."""
MAX_NESTING = 40
_ELLIPSIS = re.compile(r"\.\.\.|…")
_FOREIGN = re.compile(r"^\s*(?:[!%$?]|>>>|In \[)", re.MULTILINE)
_WHOLE = re.compile(r"^(?:from|import|def|class|async def|@)\b", re.MULTILINE)
_BRACKETS = re.compile(r"[()\[\]{}]")
_PROOFS = (
    "was never closed", "unterminated string literal", "unterminated triple-quoted string literal", "unmatched '",
    "does not match opening parenthesis",
)  # fmt: skip
"""Messages of CPython's parser since 3.10 for what is wrong in every version of the language."""
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_COMMENT = re.compile(r"//|/\*|#|<")
_TRAILING_COMMA = re.compile(r",(?=\s{0,200}[\]}])")


def check_block(block: Block) -> list[Finding]:
    kind = _LABELS.get(block.label)
    return [proved(kind)] if kind is not None and _WRONG[kind](block.text) else []


def _is_wrong_python(text: str) -> bool:
    if len(text) > MAX_PYTHON or _ELLIPSIS.search(text) or _FOREIGN.search(text):
        return False
    text = textwrap.dedent(text)
    if not _WHOLE.search(text) or _nesting(text) > MAX_NESTING:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would show the text
            ast.parse(text)
    except SyntaxError as error:
        return any(proof in error.msg for proof in _PROOFS) and "f-string" not in error.msg
    except (ValueError, MemoryError, RecursionError):
        return False
    return False


def _nesting(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        deepest = max(deepest, depth)
    return deepest


def _is_wrong_json(text: str) -> bool:
    text = text.strip()
    if not text or text[0] not in "{[" or _ELLIPSIS.search(text):
        return False
    if _COMMENT.search(_STRING.sub("", text)):
        return False
    if read_json(text) is not Broken.SYNTAX:
        return False
    if all(read_json(line) is not Broken.SYNTAX for line in text.split("\n") if line.strip()):
        return False
    return read_json(_TRAILING_COMMA.sub("", text)) is Broken.SYNTAX


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
