"""Which imports, and which attributes of imported modules, a Python source uses, and with which keywords. Pure.

Only what is sure: a name that anything but one import binds is left out, and so is what a guard protects (`try` with a
handler that takes a missing name, tests of the platform or version).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import NamedTuple

from stoker_orchestrator.checks.guards import is_guard, takes

_HANDLED = frozenset(("ImportError", "ModuleNotFoundError", "AttributeError", "NameError", "TypeError"))

Bindings = dict[str, tuple[str, tuple[str, ...]]]
"""By name, the module and the attributes that it means."""


class NameUse(NamedTuple):
    """One import, or one chain of attributes that begins at an imported module; `builtins` is one, too."""

    line: int
    module: str
    names: tuple[str, ...] = ()
    is_import: bool = False
    shown: str = ""
    """How the source writes it."""
    keywords: tuple[str, ...] = ()
    """With which it is called."""


def name_uses(tree: ast.Module) -> list[NameUse]:
    """In the order of their lines. Relative imports are left out."""
    bindings = _bindings(tree)
    given = _builtins(tree)
    found: list[NameUse] = []
    for statement in tree.body:
        is_guarded = any(is_guard(node) for node in ast.walk(statement))
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
            elif isinstance(node, ast.Call) and node.keywords and not is_guarded and not place.in_try:
                found += _calls(node, bindings, given)
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


def _calls(node: ast.Call, bindings: Bindings, given: frozenset[str]) -> list[NameUse]:
    """A call with keywords of what an import, or Python itself, gives."""
    chain = _chain(node.func)
    if chain is None:
        return []
    if chain[0] in bindings:
        module, names = bindings[chain[0]]
    elif chain[0] in given:
        module, names = "builtins", (chain[0],)
    else:
        return []
    path, shown = (*names, *chain[1]), ".".join((chain[0], *chain[1]))
    return [NameUse(one.lineno, module, path, False, shown, (one.arg,)) for one in node.keywords if one.arg is not None]


def _builtins(tree: ast.Module) -> frozenset[str]:
    """The names of Python itself that nothing in the source binds."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        bound.update(bound_by(node))
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound.update(one.asname or one.name.partition(".")[0] for one in node.names)
            if any(one.name == "*" for one in node.names):
                return frozenset()
    return frozenset(dir(builtins)) - bound


def _bindings(tree: ast.Module) -> Bindings:
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
            others.update(bound_by(node))
    return {name: meaning for name, meaning in found.items() if name not in others}


def _bind(
    found: dict[str, tuple[str, tuple[str, ...]]], others: set[str], name: str, meaning: tuple[str, tuple[str, ...]]
) -> None:
    if found.setdefault(name, meaning) != meaning:
        others.add(name)


def bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node other than an import binds."""
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
        place = place._replace(in_try=place.in_try or any(takes(one, _HANDLED) for one in node.handlers))
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, place)


def _chain(node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    names: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    return (inner.id, tuple(reversed(names))) if isinstance(inner, ast.Name) else None


def _stored(tree: ast.Module, bindings: Bindings) -> Iterator[NameUse]:
    """Attributes that the source itself sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            chain = _chain(node)
            if chain is not None and chain[0] in bindings:
                module, names = bindings[chain[0]]
                yield NameUse(node.lineno, module, (*names, *chain[1]))
