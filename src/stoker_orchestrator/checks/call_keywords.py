"""Calls of a source's own functions and classes with a keyword that they do not take. Pure, linear in the text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from stoker_orchestrator.checks.guards import unguarded
from stoker_orchestrator.checks.name_uses import bound_by
from stoker_orchestrator.checks.names_probe import Definitions


class UnknownKeyword(NamedTuple):
    line: int
    function: str
    keyword: str
    known: frozenset[str]


def unknown_keywords(tree: ast.Module) -> Iterator[UnknownKeyword]:
    """Only of functions whose name nothing else in the source binds, and where no handler takes the TypeError."""
    functions = _sure_functions(tree)
    if not functions:
        return
    definitions = Definitions(tree)
    for node in unguarded(tree, ("TypeError",)):
        match node:
            case ast.Call(func=ast.Name(id=name), keywords=[_, *_] as keywords) if name in functions:
                known = definitions.keywords(name)
                for one in keywords:
                    if known is not None and one.arg is not None and one.arg not in known:
                        yield UnknownKeyword(one.lineno, name, one.arg, frozenset(known))


def _sure_functions(tree: ast.Module) -> frozenset[str]:
    times: dict[str, int] = {}
    for node in ast.walk(tree):
        names = list(bound_by(node))
        if isinstance(node, ast.Import | ast.ImportFrom):
            if any(one.name == "*" for one in node.names):
                return frozenset()
            names = [one.asname or one.name.partition(".")[0] for one in node.names]
        elif isinstance(node, ast.Global):
            names = node.names * 2
        for name in names:
            times[name] = times.get(name, 0) + 1
    top = (one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    return frozenset(name for name in top if times[name] == 1)
