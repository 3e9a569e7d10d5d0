"""Does a block parse? The first layer, and what tells the cutter that a definition is complete.

Everything is bounded in the length of the text, and raises nothing: blocks come from a model.
"""

from __future__ import annotations

import ast
import asyncio
import json
import textwrap
import warnings
from typing import NamedTuple

from stoker_content.verify.check_code import has_wrong_hunk
from stoker_content.verify.check_text import is_loop
from stoker_orchestrator.checks.grammars import grammar_of, language_of
from stoker_orchestrator.checks.syntax_tree import parse_in_process, parse_short

MAX_TEXT = 64 * 1024
"""Characters of a block. A longer one fails."""
_RULE = "-=*_#~ \t\r\n"
_TAIL = 4096
"""Characters at the end of prose that are searched for a loop."""
PYTHON = ("python", "py", "python3")
_JSON = ("json",)
_DIFF = ("diff", "patch")


class StructureFinding(NamedTuple):
    line: int
    """From 1; 0: the block as a whole."""
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


async def check_code(language: str, text: str) -> StructureFinding | None:
    """The first thing that is wrong with the form of a block of code; None: nothing, or the language is not judged.
    Raises OSError: no process can be started.
    """
    finding = await asyncio.to_thread(structure_finding, language, text)
    if finding is not None or len(text) > MAX_TEXT:
        return finding
    tree = await parse_in_process(language, text)
    return None if tree is None or tree.fault is None else StructureFinding(*tree.fault)


def structure_finding(language: str, text: str) -> StructureFinding | None:
    """What is wrong with the form of Python, JSON and diffs, and with any block that is empty or too long."""
    if len(text) > MAX_TEXT:
        return StructureFinding(0, f"the block has more than {MAX_TEXT} characters")
    if not text.strip():
        return StructureFinding(0, "the block is empty")
    if language in PYTHON:
        return _python_finding(text)
    if language in _JSON:
        return _json_finding(text)
    if language in _DIFF and has_wrong_hunk(text):
        return StructureFinding(0, "a hunk is not as long as its header says")
    return None


def understands(language: str) -> bool:
    """Whether the structure of this language is judged here."""
    if language in PYTHON or language in _JSON or language in _DIFF:
        return True
    grammar = grammar_of(language)
    return grammar is not None and language_of(grammar) is not None


def prose_finding(text: str) -> StructureFinding | None:
    """What is wrong with the form of a block of prose: it says nothing, or its end repeats itself. A rule is fine."""
    if text.strip(_RULE) and not any(character.isalnum() for character in text):
        return StructureFinding(0, "the answer holds no words")
    if is_loop(text[-_TAIL:]):
        return StructureFinding(text.rstrip().count("\n") + 1, "the text repeats itself")
    return None


def is_complete(language: str, text: str) -> bool:
    """Whether a block could end here: it parses and holds a definition. An empty language is taken for Python; other
    languages are judged in short texts only.
    """
    if len(text) > MAX_TEXT:
        return False
    if language not in ("", *PYTHON):
        tree = parse_short(language, text)
        return tree is not None and tree.is_complete
    module = _python_tree(text)
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return isinstance(module, ast.Module) and any(isinstance(node, definitions) for node in module.body)


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
    except (RecursionError, ValueError) as error:
        return StructureFinding(0, "it is nested too deep" if isinstance(error, RecursionError) else str(error))
    return None
