"""Finds attributes that a value's class lacks. Runs in a process of its own, as `python -m` this module.

Only values whose class is sure are judged: literals, and calls of classes, held by a name that is bound once. A class
is sure if its source can be read, all of its bases are sure, and nothing in it makes attributes at run time. Classes of
the standard library are asked themselves.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
import json
import sys
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

_MAX_ATTRIBUTES = 200
"""Attributes that are looked at."""
_MISSPELT = 0.85
"""How similar a name is to the one that was meant."""
_DYNAMIC = frozenset(("setattr", "__dict__", "vars", "globals", "exec", "eval", "locals", "type"))
_CATCH_ALL = frozenset(("__getattr__", "__getattribute__", "__slots__", "__init_subclass__"))
_DECORATORS = frozenset(("dataclass", "final", "total_ordering", "runtime_checkable"))
_UNTOUCHED = frozenset(("antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "test", "lib2to3"))
_HOLDS_ANYTHING = frozenset(
    (
        "Namespace", "SimpleNamespace", "local", "Message", "Structure", "Union", "Element", "Values", "type", "object",
        "super", "property",
    )
)  # fmt: skip
"""Classes of the standard library whose instances may hold any attribute."""


class _Value(NamedTuple):
    node: ast.expr
    """What is looked up by jedi: the called class, or the literal."""
    attribute: ast.Attribute
    is_own: bool = False
    """`self.NAME`: a subclass may have it, so it is only wrong if it looks like a name of the class."""


class _Class(NamedTuple):
    shown: str
    names: frozenset[str]


class MethodFinder:
    """Of one source."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._source, self._first = order["source"], order["first"]
        self._tree = ast.parse(self._source)
        self._stored = {
            node.attr for node in ast.walk(self._tree) if isinstance(node, ast.Attribute) and not _is_load(node)
        }

    @cached_property
    def _script(self) -> Any:
        """The source, as jedi reads it. Most blocks need none, and its import alone takes longer than all the rest."""
        jedi: Any = importlib.import_module("jedi")
        jedi.settings.dynamic_params = False
        python, roots = self._order["python"] or sys.executable, self._order["roots"]
        environment = jedi.create_environment(python, safe=False) if python != sys.executable else None
        project = jedi.Project(roots[0], added_sys_path=roots, smart_sys_path=False, load_unsafe_extensions=False)
        return jedi.Script(self._source, project=project, environment=environment)

    def find(self) -> dict[str, Any] | None:
        """The first attribute of the block that does not exist."""
        if any(isinstance(node, ast.Name) and node.id in _DYNAMIC - {"type"} for node in ast.walk(self._tree)):
            return None
        for value in sorted(self._values(), key=lambda value: value.attribute.lineno)[:_MAX_ATTRIBUTES]:
            attribute = value.attribute
            if attribute.attr.startswith("__") or attribute.attr in self._stored:
                continue
            owner = self._class_of(value.node)
            if owner is None or attribute.attr in owner.names:
                continue
            if not value.is_own or _is_misspelt(attribute.attr, owner.names):
                return {
                    "line": attribute.end_lineno or attribute.lineno,
                    "shown": ast.unparse(attribute),
                    "owner": owner.shown,
                    "name": attribute.attr,
                    "known": sorted(name for name in owner.names if not name.startswith("_")),
                }
        return None

    def _values(self) -> Iterator[_Value]:
        """The attributes of the block whose value's origin is sure."""
        for scope in _scopes(self._tree):
            origins = _origins(scope)
            for node in _own_nodes(scope):
                if isinstance(node, ast.Attribute) and _is_load(node) and node.lineno > self._first:
                    base: ast.expr | None = node.value
                    if isinstance(base, ast.Name):
                        base = origins.get(base.id)
                    if isinstance(base, ast.Call | ast.Constant | ast.List | ast.Dict | ast.Set | ast.JoinedStr):
                        yield _Value(base, node)
        yield from self._own_methods()

    def _own_methods(self) -> Iterator[_Value]:
        """`self.NAME` in the methods of the block's classes."""
        for node in self._tree.body:
            if not isinstance(node, ast.ClassDef):
                continue
            for method in node.body:
                if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or method.decorator_list:
                    continue
                first = method.args.args[0].arg if method.args.args else ""
                for one in ast.walk(method):
                    if (
                        isinstance(one, ast.Attribute)
                        and isinstance(one.value, ast.Name)
                        and one.value.id == first == "self"
                        and _is_load(one)
                        and one.lineno > self._first
                    ):
                        yield _Value(ast.Name(node.name, lineno=node.lineno, col_offset=-1), one, True)

    def _class_of(self, node: ast.expr) -> _Class | None:
        """The one class of a value; None: it is not sure."""
        match node:
            case ast.Name(id=name, col_offset=-1):
                return _project_class(self._tree, name)
            case ast.Constant(value=value) if value is None or value is Ellipsis:
                return None
            case ast.Constant(value=value):
                return _runtime_class(type(value))
            case ast.JoinedStr():
                return _runtime_class(str)
            case ast.List():
                return _runtime_class(list)
            case ast.Dict():
                return _runtime_class(dict)
            case ast.Set():
                return _runtime_class(set)
            case ast.Call(func=called):
                return self._called(called)
        return None

    def _called(self, called: ast.expr) -> _Class | None:
        if not isinstance(called, ast.Name | ast.Attribute):
            return None
        end_column = (called.end_col_offset or 1) - 1
        line = self._source.splitlines()[(called.end_lineno or 1) - 1]
        column = len(line.encode()[:end_column].decode("utf-8", "ignore"))
        return self._resolve(called.end_lineno or 1, column)

    def _resolve(self, line: int, column: int) -> _Class | None:
        """The class that a place names; None: it names none, or more than one."""
        found = self._script.goto(line, column, follow_imports=True)
        if len(found) != 1 or found[0].type != "class":
            return None
        name = found[0]
        standard = _standard_class(str(name.module_name), str(name.name), str(name.full_name or ""))
        if standard is not None:
            return _runtime_class(standard)
        if name.in_builtin_module() or name.is_stub() or _is_standard(str(name.module_name)):
            return None
        path = name.module_path
        if path is None or not Path(path).is_file():
            return _project_class(self._tree, name.name) if path is None else None
        text = Path(path).read_text("utf-8", "replace")
        return _project_class(ast.parse(text), name.name)


def _is_misspelt(name: str, names: frozenset[str]) -> bool:
    near = difflib.get_close_matches(name, names, n=1, cutoff=_MISSPELT)
    return bool(near) and near[0].strip("_") != name.strip("_")


def _is_load(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    """The module, and its functions: a name that a function binds once is sure in it."""
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the scopes in it."""
    nodes = list(ast.iter_child_nodes(scope))
    while nodes:
        node = nodes.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(node))


def _origins(scope: ast.AST) -> dict[str, ast.expr]:
    """Names that one plain assignment of this scope binds, and nothing else anywhere in it."""
    found: dict[str, ast.expr] = {}
    bound: dict[str, int] = {}
    for node in ast.walk(scope):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound[name] = bound.get(name, 0) + 1
            case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound[name] = bound.get(name, 0) + 1
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                for name in names:
                    bound[name] = bound.get(name, 0) + 2
    for node in _own_nodes(scope):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return {name: value for name, value in found.items() if bound.get(name) == 1}


def _project_class(tree: ast.Module, name: str) -> _Class | None:
    """A class of a source, with the names of its bases; None: it is not sure."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    if len(classes) != 1 or classes[0] not in tree.body or classes[0].keywords:
        return None
    node = classes[0]
    names = _names_in(node)
    if names is None or not all(_is_known_decorator(one) for one in node.decorator_list):
        return None
    own = {one.name for one in tree.body if isinstance(one, ast.ClassDef)}
    for base in node.bases:
        if isinstance(base, ast.Subscript):
            base = base.value
        above = None
        if isinstance(base, ast.Name) and base.id in own:
            above = _project_class(tree, base.id) if base.id != name else None
        elif isinstance(base, ast.Name) and hasattr(builtins, base.id):
            above = _runtime_class(getattr(builtins, base.id))
        if above is None:
            return None
        names |= above.names
    return _Class(name, frozenset(names | set(dir(object))))


def _names_in(node: ast.ClassDef) -> set[str] | None:
    """Every attribute that the source of a class sets; None: it also makes some at run time."""
    names: set[str] = set()
    for one in ast.walk(node):
        match one:
            case ast.Name(id=word) if word in _DYNAMIC:
                return None
            case ast.Attribute(attr=word) if word in _DYNAMIC:
                return None
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) if word in _CATCH_ALL:
                return None
            case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
                names.add(word)
            case ast.Name(id=word, ctx=ast.Store()) | ast.Attribute(attr=word, ctx=ast.Store()):
                names.add(word)
            case ast.Constant(value=str(word)):
                names.add(word)  # __slots__, and names that are given as text
            case ast.alias(name=word, asname=other):
                names.add(other or word)
    return names


def _is_known_decorator(node: ast.expr) -> bool:
    node = node.func if isinstance(node, ast.Call) else node
    word = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return word in _DECORATORS


def _is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


def _standard_class(module: str, name: str, full: str) -> type | None:
    top = module.partition(".")[0]
    if not _is_standard(module) or top in _UNTOUCHED or full != f"{module}.{name}":
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception:
        return None
    return found if isinstance(found, type) else None


def _runtime_class(found: type) -> _Class | None:
    """A class of the standard library. What its methods set on `self` counts, too."""
    if found.__name__ in _HOLDS_ANYTHING or issubclass(found, type):
        return None
    names: set[str] = set(dir(found))
    for one in found.__mro__:
        if "__getattr__" in vars(one) or one.__module__.partition(".")[0] in ("unittest", "ctypes", "enum"):
            return None
        if one.__module__ == "builtins":
            continue
        set_names = _set_by_source(one)
        if set_names is None:
            return None
        names |= set_names
    shown = found.__name__ if found.__module__ == "builtins" else f"{found.__module__}.{found.__qualname__}"
    return _Class(shown, frozenset(names))


def _set_by_source(found: type) -> set[str] | None:
    """Attributes that the source of a class's module sets anywhere; none for a class that is written in C."""
    path = getattr(sys.modules.get(found.__module__), "__file__", None)
    if not path or not path.endswith(".py"):
        return set()
    try:
        tree = ast.parse(Path(path).read_text("utf-8", "replace"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and not _is_load(node)}


def main() -> None:
    warnings.simplefilter("ignore")
    order = json.loads(sys.stdin.buffer.read())
    try:
        found = MethodFinder(order).find()
    except Exception:  # jedi meets what it does not know: nothing is proved
        found = None
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
