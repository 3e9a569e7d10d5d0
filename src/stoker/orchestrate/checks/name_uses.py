"""Which imports, and which attributes of imported modules, a Python source uses. Pure.

Only what is sure: a name that anything but one import binds is left out, and so is what a guard protects (`try` with a
handler that takes a missing name, tests of the platform or version).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_HANDLED = frozenset(
    ("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "Exception", "BaseException")
)
_GUARDS = frozenset(
    (
        "sys", "platform", "hasattr", "TYPE_CHECKING", "version_info", "system", "getattr", "find_spec", "VERSION",
        "skipif", "skipUnless", "skipIf", "importorskip", "suppress", "raises",
    )
)  # fmt: skip
"""Words in a test, a decorator or a `with` that make what it protects unsure."""


class NameUse(NamedTuple):
    """One import, or one chain of attributes that begins at an imported module."""

    line: int
    module: str
    names: tuple[str, ...] = ()
    is_import: bool = False
    shown: str = ""
    """How the source writes it."""


def name_uses(tree: ast.Module) -> list[NameUse]:
    """In the order of their lines. Relative imports are left out."""
    bindings = _bindings(tree)
    found: list[NameUse] = []
    for statement in tree.body:
        is_guarded = any(_is_guard(node) for node in ast.walk(statement))
        for node, place in _nodes(statement, _Place()):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found += [] if any(place) or is_guarded else _imports(node)
            elif isinstance(node, ast.Attribute) and not is_guarded and not place.in_try:
                chain = _chain(node)
                if chain is not None and chain[0] in bindings:
                    module, names = bindings[chain[0]]
                    found.append(
                        NameUse(node.lineno, module, (*names, *chain[1]), shown=f"{chain[0]}.{'.'.join(chain[1])}")
                    )
    stored = {use.names for use in _stored(tree, bindings)}
    return sorted((use for use in found if use.names not in stored or use.is_import), key=lambda use: use.line)


def _imports(node: ast.Import | ast.ImportFrom) -> list[NameUse]:
    if isinstance(node, ast.Import):
        return [NameUse(node.lineno, one.name, (), True, one.name) for one in node.names]
    if node.level or not node.module or node.module == "__future__":
        return []
    whole = NameUse(node.lineno, node.module, (), True, node.module)
    names = [
        NameUse(one.lineno, node.module, (one.name,), True, f"{node.module}.{one.name}")
        for one in node.names
        if one.name != "*"
    ]
    return names or [whole]


def _bindings(tree: ast.Module) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Names that imports bind, and nothing else."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    others: set[str] = set()
    for node, place in _nodes(tree, _Place()):
        if isinstance(node, ast.Import | ast.ImportFrom) and any(place):
            others.update(one.asname or one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.Import):
            for one in node.names:
                name = one.asname or one.name.partition(".")[0]
                _bind(found, others, name, (one.name if one.asname else name, ()))
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                if one.name == "*":
                    return {}
                meaning = (node.module or "", (one.name,))
                if node.level:
                    others.add(one.asname or one.name)
                else:
                    _bind(found, others, one.asname or one.name, meaning)
        else:
            others.update(_bound_by(node))
    return {name: meaning for name, meaning in found.items() if name not in others}


def _bind(
    found: dict[str, tuple[str, tuple[str, ...]]], others: set[str], name: str, meaning: tuple[str, tuple[str, ...]]
) -> None:
    if found.setdefault(name, meaning) != meaning:
        others.add(name)


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name


class _Place(NamedTuple):
    in_try: bool = False
    """A handler takes what is missing."""
    in_if: bool = False


def _nodes(node: ast.AST, place: _Place) -> Iterator[tuple[ast.AST, _Place]]:
    """Every node that is no part of a longer chain, and what protects it."""
    yield node, place
    if isinstance(node, ast.Attribute):
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        yield from _nodes(inner, place)
        return
    if isinstance(node, ast.If | ast.IfExp | ast.Match):
        place = place._replace(in_if=True)
    if isinstance(node, ast.Try | ast.TryStar):
        place = place._replace(in_try=place.in_try or any(_takes_missing(one) for one in node.handlers))
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, place)


def _takes_missing(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or any(
        isinstance(node, ast.Name) and node.id in _HANDLED for node in ast.walk(handler.type)
    )


def _is_guard(node: ast.AST) -> bool:
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


def _is_guard_word(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) if word in _GUARDS:
            return True
        case ast.Attribute(value=ast.Name(id="os"), attr="name"):
            return True
    return False


def _chain(node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    names: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    return (inner.id, tuple(reversed(names))) if isinstance(inner, ast.Name) else None


def _stored(tree: ast.Module, bindings: dict[str, tuple[str, tuple[str, ...]]]) -> Iterator[NameUse]:
    """Attributes that the source itself sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            chain = _chain(node)
            if chain is not None and chain[0] in bindings:
                module, names = bindings[chain[0]]
                yield NameUse(node.lineno, module, (*names, *chain[1]))
