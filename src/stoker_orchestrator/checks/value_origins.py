"""Where the values of a Python source come from: literals, calls and annotations. Pure.

A name is sure if every place that binds it, in its scope and in all scopes within, shows where its value comes from,
and no test of its type (`isinstance`, `match`) narrows it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from stoker_orchestrator.checks.name_uses import bound_by

_NARROWING = frozenset(("isinstance", "issubclass", "hasattr", "getattr", "callable", "type", "is_dataclass"))
_GROWS = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.JoinedStr)
"""What `+=` leaves what it is."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Origin(NamedTuple):
    node: ast.expr
    is_annotation: bool = False


Origins = dict[str, tuple[Origin, ...]]


class ValueUse(NamedTuple):
    """One attribute that is read."""

    attribute: ast.Attribute
    origins: tuple[Origin, ...]
    """Of the value whose attribute it is: one of these."""
    names: Origins
    """What is sure where the value comes from."""
    in_class: str = ""
    """Its value is `self`, of this class."""


def value_uses(tree: ast.Module) -> Iterator[ValueUse]:
    """Where the value's origin is sure."""
    stored = _stored(tree)
    classes = {node.name: _attributes(node, stored) for node in tree.body if isinstance(node, ast.ClassDef)}
    at_top = {id(node) for node in tree.body}
    scopes: list[tuple[ast.AST, Origins, str, str]] = [(tree, {}, "", "")]
    while scopes:
        scope, around, self_name, owner = scopes.pop()
        names = {**around, **_origins(scope)}
        for node in _own_nodes(scope):
            if isinstance(node, ast.ClassDef):
                inner = node.name if id(node) in at_top else ""
                scopes += [(one, names, _self_of(one), inner) for one in node.body if isinstance(one, FUNCTIONS)]
            elif isinstance(node, FUNCTIONS):
                is_another = any(one.arg == self_name for one in ast.walk(node.args) if isinstance(one, ast.arg))
                scopes.append((node, names, "" if is_another else self_name, owner))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                yield from _use(node, names, self_name, owner, classes)


def _use(
    node: ast.Attribute, names: Origins, self_name: str, owner: str, classes: dict[str, Origins]
) -> Iterator[ValueUse]:
    match node.value:
        case ast.Name(id=name) if name in names:
            yield ValueUse(node, names[name], names)
        case ast.Name(id=name) if owner and name == self_name:
            yield ValueUse(node, (), names, owner)
        case ast.Attribute(value=ast.Name(id=name), attr=field) if owner and name == self_name:
            if field in classes[owner]:
                yield ValueUse(node, classes[owner][field], {})
        case ast.Name() | ast.Attribute():
            return
        case value:
            yield ValueUse(node, (Origin(value),), names)


def _self_of(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    is_plain = not method.decorator_list and method.args.args and method.args.args[0].arg == "self"
    return "self" if is_plain else ""


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes in it."""
    nodes = list(scope.body if isinstance(scope, (*FUNCTIONS, ast.Module)) else ast.iter_child_nodes(scope))
    while nodes:
        node = nodes.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            nodes.extend(ast.iter_child_nodes(node))


def _origins(scope: ast.AST) -> Origins:
    bound: dict[str, int] = {}
    narrowed: set[str] = set()
    for node in ast.walk(scope):
        names = [] if node is scope else list(bound_by(node))
        match node:
            case ast.Import() | ast.ImportFrom():
                names = [one.asname or one.name.partition(".")[0] for one in node.names]
            case ast.Global(names=words) | ast.Nonlocal(names=words):
                names = words * 2
            case ast.Call(func=ast.Name(id=word), args=args) if word in _NARROWING:
                narrowed.update(one.id for one in args if isinstance(one, ast.Name))
            case ast.Match(subject=ast.Name(id=name)):
                narrowed.add(name)
        for name in names:
            bound[name] = bound.get(name, 0) + 1
    found: dict[str, list[Origin]] = {}
    grown: dict[str, int] = {}
    for name, origin in _bindings(scope):
        found.setdefault(name, []).append(origin)
    for node in _own_nodes(scope):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            grown[node.target.id] = grown.get(node.target.id, 0) + 1
    return {
        name: tuple(origins)
        for name, origins in found.items()
        if name not in narrowed and _are_all(origins, bound[name], grown.get(name, 0))
    }


def _are_all(origins: list[Origin], bound: int, grown: int) -> bool:
    """Whether these are all origins of a name that is bound so often."""
    if grown and not all(isinstance(one.node, _GROWS) for one in origins):
        return False
    return len(origins) + grown == bound


def _bindings(scope: ast.AST) -> Iterator[tuple[str, Origin]]:
    if isinstance(scope, FUNCTIONS):
        for one in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs):
            if one.annotation is not None:
                yield one.arg, Origin(one.annotation, True)
    for node in _own_nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, Origin(value)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                yield name, Origin(annotation, True)


def _stored(tree: ast.Module) -> dict[str, int]:
    """How often attributes are set, by name. What is narrowed counts as set in a way of its own."""
    times: dict[str, int] = {}
    for node in ast.walk(tree):
        names = []
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                names = [name]
            case ast.Call(func=ast.Name(id=word), args=args) if word in _NARROWING:
                names = [one.attr for one in args if isinstance(one, ast.Attribute)]
            case ast.Match(subject=ast.Attribute(attr=name)):
                names = [name]
        for name in names:
            times[name] = times.get(name, 0) + 1
    return times


def _attributes(owner: ast.ClassDef, stored: dict[str, int]) -> Origins:
    """What `self.NAME` is, where all places of the source that set such an attribute say so."""
    found: dict[str, list[Origin]] = {}
    at_top: dict[str, int] = {}
    for node in owner.body:
        names = []
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                found.setdefault(name, []).append(Origin(annotation, True))
                names = [name]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names = [node.name]
                for one in ast.walk(node) if _self_of(node) else ():
                    for name, origin in _set_on_self(one):
                        found.setdefault(name, []).append(origin)
            case _:
                names = [name for one in ast.walk(node) for name in bound_by(one)]
        for name in names:
            at_top[name] = at_top.get(name, 0) + 1
    return {
        name: tuple(origins)
        for name, origins in found.items()
        if len(origins) == stored.get(name, 0) + at_top.get(name, 0)
    }


def _set_on_self(node: ast.AST) -> Iterator[tuple[str, Origin]]:
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
            yield name, Origin(value)
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
            yield name, Origin(annotation, True)
