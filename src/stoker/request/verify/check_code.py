"""Code in closed fences that say their language. A snippet is no file: only what no reading allows is proved wrong.

python   a bracket or a string that is not closed, in something that has a definition or an import. Not judged: `...`,
         prompts of a shell or a notebook, old Python, what a newer Python may read
json     starts like a document, and is neither JSON nor lines of it. Not judged: `...`, comments, placeholders
diff     hunks that are not as long as they say
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Callable, Mapping

from stoker.request.verify.brackets import are_matched, nesting, without_json_strings, without_python_text
from stoker.request.verify.check_diff import has_wrong_hunk
from stoker.request.verify.fences import CodeBlock
from stoker.request.verify.finding import AnswerFinding, proved
from stoker.request.verify.json_value import InvalidJson, read_json

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
