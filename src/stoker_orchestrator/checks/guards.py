"""What makes a statement unsure: a test of the platform or version, or a handler that takes what is missing. Pure."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

_WORDS = frozenset(
    (
        "sys", "platform", "hasattr", "TYPE_CHECKING", "version_info", "system", "getattr", "find_spec", "VERSION",
        "skipif", "skipUnless", "skipIf", "importorskip", "suppress", "raises", "assertRaises", "assertRaisesRegex",
        "PY2", "PY3",
    )
)  # fmt: skip
"""Words in a test, a decorator or a `with` that make what it protects unsure."""
_BROAD = frozenset(("Exception", "BaseException"))


def is_guard(node: ast.AST) -> bool:
    """Whether this makes the statement around it unsure."""
    tests: list[ast.AST] = []
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
            tests = [test]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            tests = [item.context_expr for item in items]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            tests = list(node.decorator_list)
        case ast.Match(subject=subject):
            tests = [subject]
    return any(_is_guard_word(one) for test in tests for one in ast.walk(test))


def takes(handler: ast.ExceptHandler, errors: Container[str]) -> bool:
    """Whether a handler takes one of these errors, or any."""
    return handler.type is None or any(
        isinstance(node, ast.Name) and (node.id in errors or node.id in _BROAD) for node in ast.walk(handler.type)
    )


def unguarded(tree: ast.AST, errors: Container[str]) -> Iterator[ast.AST]:
    """The nodes that no handler of one of these errors, and no guard, stands around."""
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Try | ast.TryStar) and any(takes(one, errors) for one in node.handlers):
            continue
        if not is_guard(node):
            yield node
            nodes.extend(ast.iter_child_nodes(node))


def _is_guard_word(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) if word in _WORDS:
            return True
        case ast.Attribute(value=ast.Name(id="os"), attr="name"):
            return True
    return False
