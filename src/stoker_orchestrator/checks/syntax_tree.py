"""Parses a block of any language that has a grammar, and finds the first place where it is wrong.

tree-sitter recovers from errors with time and memory that grow with the square of the text, and cannot be stopped. So
only short texts are parsed here; others in a process with limits (`parse_in_process`).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from stoker_lab.suites.sandbox.command import bounded_command
from stoker_orchestrator.checks.grammars import Grammar, grammar_of, language_of

SHORT = 2000
"""Characters that may be parsed in this process: 0.3 seconds and 150 MB at the worst."""
_MEMORY, _SECONDS = 1024 * 2**20, 10.0
"""Of a process that parses. The longest block that is right takes 0.1 seconds."""
_MAX_SHOWN = 40
_PHP = "php"
_MEMBERS = frozenset(("java", "csharp"))
"""Languages whose functions stand in classes only: a block of functions is wrapped in one."""


class SyntaxTree(NamedTuple):
    fault: tuple[int, str] | None
    """Line (from 1) and message of the first error."""
    is_complete: bool
    """No error, and a definition at the top."""


_UNREADABLE = SyntaxTree((0, "it has too many errors to be read"), False)


async def parse_in_process(language: str, text: str) -> SyntaxTree | None:
    """None: the language has no grammar here. A text that cannot be read within the limits is wrong. Raises OSError: no
    process can be started. On cancel the process is killed.
    """
    grammar = grammar_of(language)
    if grammar is None or language_of(grammar) is None:
        return None
    order = json.dumps([language, text]).encode("ascii")
    command = [sys.executable, "-c", _PROGRAM, str(_MEMORY)]
    with tempfile.TemporaryDirectory(prefix="stoker-check-", ignore_cleanup_errors=True) as directory:
        env = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONDONTWRITEBYTECODE": "1"}
        result = await bounded_command(command, Path(directory), order, env, _SECONDS)
    try:
        fault, is_complete = json.loads(result.output)
    except ValueError:
        return _UNREADABLE
    return SyntaxTree(None if fault is None else (int(fault[0]), str(fault[1])), bool(is_complete))


_PROGRAM = """
import json, resource, sys
try:
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
except (OSError, ValueError):
    pass  # macOS has no such limit: the time has one
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from stoker_orchestrator.checks.syntax_tree import parse_here
language, text = json.loads(sys.stdin.buffer.read())
print(json.dumps(parse_here(language, text)))
"""


def parse_short(language: str, text: str) -> SyntaxTree | None:
    """None: the language has no grammar here, or the text is not short."""
    return parse_here(language, text) if len(text) <= SHORT else None


def parse_here(language: str, text: str) -> SyntaxTree | None:
    """In this process. None: the language has no grammar here."""
    grammar = grammar_of(language)
    if grammar is None or (parser := _parser(grammar)) is None:
        return None
    before = "<?php\n" if grammar.words[0] == _PHP and "<?" not in text else ""
    tree = _judged(parser, grammar, before, text, "")
    if tree.fault is not None and grammar.words[0] in _MEMBERS:
        wrapped = _judged(parser, grammar, "class Block {\n", text, "\n}\n")
        return SyntaxTree(None, True) if wrapped.fault is None else tree
    return tree


def _parser(grammar: Grammar) -> Any:
    """A new one for each text: threads must not share one."""
    language = language_of(grammar)
    return None if language is None else importlib.import_module("tree_sitter").Parser(language)


def _judged(parser: Any, grammar: Grammar, before: str, text: str, after: str) -> SyntaxTree:
    data = f"{before}{text}{after}".encode("utf-8", "replace")
    root = parser.parse(data).root_node
    if root.has_error:
        line, message = _first_fault(root, data)
        return SyntaxTree((min(max(1, line - before.count("\n")), text.count("\n") + 1), message), False)
    return SyntaxTree(None, any(_is_definition(child, grammar) for child in root.named_children))


def _is_definition(node: Any, grammar: Grammar) -> bool:
    """Also within what only wraps it: C# takes a function at the top for a statement."""
    return node.type in grammar.definitions or (
        node.type == "global_statement" and any(child.type == "local_function_statement" for child in node.children)
    )


def _first_fault(root: Any, data: bytes) -> tuple[int, str]:
    """The first node that is missing or wrong, by its place."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.is_missing:
            return node.start_point[0] + 1, f"'{node.type}' is missing"
        wrong = [child for child in node.children if child.has_error or child.is_missing]
        if node.is_error and not wrong:
            return node.start_point[0] + 1, f"it does not parse at {_shown(data, node)}"
        nodes.extend(reversed(wrong))
    return 1, "it does not parse"


def _shown(data: bytes, node: Any) -> str:
    """The text of the place, on one line."""
    text = data[node.start_byte : node.end_byte].decode("utf-8", "replace").strip()
    first = text.splitlines()[0] if text else ""
    clean = "".join(character if character.isprintable() else " " for character in first)
    return repr(clean[:_MAX_SHOWN]) if clean else "its end"
