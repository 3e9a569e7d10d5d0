"""Does a block parse? The first layer, and what tells the cutter that a definition is complete."""

from __future__ import annotations

import ast
import json
import textwrap
import warnings
from typing import NamedTuple

from stoker.request.verify.check_diff import has_wrong_hunk

_MAX_TEXT = 64 * 1024
_PYTHON = ("python", "py", "python3")
_JSON = ("json",)
_DIFF = ("diff", "patch")


class StructureFinding(NamedTuple):
    line: int
    """From 1; 0: the block as a whole."""
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


def structure_finding(language: str, text: str) -> StructureFinding | None:
    """The first thing that is wrong with the form of a block; None: nothing, or the language is not known. Linear;
    raises nothing.
    """
    if len(text) > _MAX_TEXT:
        return StructureFinding(0, f"the block has more than {_MAX_TEXT} characters")
    if language in _PYTHON:
        return _python_finding(text)
    if language in _JSON:
        return _json_finding(text)
    if language in _DIFF and has_wrong_hunk(text):
        return StructureFinding(0, "a hunk is not as long as its header says")
    return None


def is_complete(language: str, text: str) -> bool:
    """Whether a block could end here: it parses and holds a definition. An empty language is taken for Python."""
    if language not in ("", *_PYTHON) or len(text) > _MAX_TEXT:
        return False
    tree = _python_tree(text)
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return isinstance(tree, ast.Module) and any(isinstance(node, definitions) for node in tree.body)


def _python_finding(text: str) -> StructureFinding | None:
    tree = _python_tree(textwrap.dedent(text))
    return tree if isinstance(tree, StructureFinding) else None


def _python_tree(text: str) -> ast.Module | StructureFinding:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would show the text
            return ast.parse(text)
    except SyntaxError as error:
        return StructureFinding(error.lineno or 0, error.msg)
    except (ValueError, MemoryError, RecursionError) as error:
        return StructureFinding(0, str(error) or "it is nested too deep")


def _json_finding(text: str) -> StructureFinding | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return StructureFinding(error.lineno, error.msg)
    except RecursionError:
        return StructureFinding(0, "it is nested too deep")
    return None
