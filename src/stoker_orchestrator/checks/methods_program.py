"""Finds attributes that a value's class lacks, and keywords that its methods do not take. Runs in a process of its
own, as `python -m` this module.

Only values whose class is sure are judged: literals, annotations, calls of classes and of functions that say what they
return (`value_origins`). A class is sure if its source can be read, all of its bases are sure, and nothing in it makes
attributes at run time. Classes of the standard library are asked themselves. A value that is only annotated may be of a
subclass: then a name is wrong if it looks like one of the class, unless the class is one of Python's own from which
few derive. What a handler or a test protects is not judged.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import importlib
import inspect
import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from stoker_orchestrator.checks.guards import unguarded
from stoker_orchestrator.checks.name_uses import bound_by
from stoker_orchestrator.checks.names_probe import NEWER, callable_keywords, parameters
from stoker_orchestrator.checks.value_origins import FUNCTIONS, Origin, Origins, ValueUse, value_uses

_MAX_LOOKUPS = 200
"""Places that jedi is asked about."""
_HANDLED = ("AttributeError", "TypeError")
_MISSPELT = 0.85
"""How similar a name is to the one that was meant."""
_DYNAMIC = frozenset(("setattr", "__dict__", "vars", "globals", "exec", "eval", "locals", "type"))
_CATCH_ALL = frozenset(("__getattr__", "__getattribute__", "__slots__", "__init_subclass__"))
_DECORATORS = frozenset(("dataclass", "final", "total_ordering", "runtime_checkable"))
_MAX_DEPTH = 8
"""Of calls and annotations within each other."""
_FAMILY = frozenset(("builtins", "collections", "enum"))
"""Modules with classes that are derived from Python's own, and that people give for them."""
_OF_TYPING = frozenset(("List", "Dict", "Set", "FrozenSet", "Tuple", "Text", "DefaultDict", "OrderedDict"))
_ANNOTATIONS: dict[str, tuple[type, ...]] = {
    "list": (list,), "dict": (dict,), "set": (set,), "frozenset": (frozenset,), "tuple": (tuple,), "str": (str,),
    "bytes": (bytes, bytearray, memoryview), "bytearray": (bytearray,), "int": (int, float), "float": (float, int),
    "bool": (bool, int, float), "List": (list,), "Dict": (dict,), "Set": (set,), "FrozenSet": (frozenset,),
    "Tuple": (tuple,), "Text": (str,),
}  # fmt: skip
"""What annotations mean. A whole number may stand where a float is meant, and other bytes for bytes."""
_SUBCLASSED = frozenset((tuple, int, float, bool))
"""Classes for which named tuples, members of an enum and numbers of other libraries are given."""
_OF_ENUMS = frozenset(("name", "value"))
_SAME_TEXT = (
    "capitalize", "casefold", "center", "expandtabs", "format", "format_map", "join", "ljust", "lower", "lstrip",
    "removeprefix", "removesuffix", "replace", "rjust", "rstrip", "strip", "swapcase", "title", "translate", "upper",
    "zfill",
)  # fmt: skip
_RETURNS: dict[str, dict[str, type]] = {
    **{name: {"str": str} for name in _SAME_TEXT},
    **{name: {"str": list, "bytes": list} for name in ("split", "rsplit", "splitlines")},
    "encode": {"str": bytes},
    "decode": {"bytes": str},
    "copy": {"list": list, "dict": dict, "set": set},
}
"""By method and class, what it returns."""
_UNTOUCHED = frozenset(("antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "test", "lib2to3"))
_HOLDS_ANYTHING = frozenset(
    (
        "Namespace", "SimpleNamespace", "local", "Message", "Structure", "Union", "Element", "Values", "type", "object",
        "super", "property",
    )
)  # fmt: skip
"""Classes of the standard library whose instances may hold any attribute."""


class _Class(NamedTuple):
    shown: str
    names: frozenset[str]
    may_be_more: bool = False
    """A subclass may have more names, so that only a misspelt one is wrong."""
    methods: Mapping[str, set[str] | None] = {}
    """What they take by name; None: it is not sure."""
    below: frozenset[str] = frozenset()
    """Names that only subclasses have."""


class MethodFinder:
    """Of one source."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._source, self._first = order["source"], order["first"]
        self._tree = ast.parse(self._source)
        self._stored = {
            node.attr for node in ast.walk(self._tree) if isinstance(node, ast.Attribute) and not _is_load(node)
        }
        self._calls = {id(node.func): node for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        self._lines = self._source.splitlines()
        self._lookups = 0
        self._bound = self._bound_names()

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
        judged = {id(node) for node in unguarded(self._tree, _HANDLED)}
        uses = (
            use for use in value_uses(self._tree) if use.attribute.lineno > self._first and id(use.attribute) in judged
        )
        for use in sorted(uses, key=lambda use: use.attribute.lineno):
            name = use.attribute.attr
            if name.startswith("__") or name in self._stored or name in NEWER:
                continue
            owner = self._owner(use)
            wrong = None if owner is None else self._wrong(owner, use.attribute)
            if wrong is not None:
                return wrong
        return None

    def _wrong(self, owner: _Class, attribute: ast.Attribute) -> dict[str, Any] | None:
        """What is wrong with an attribute of a value of this class."""
        name = attribute.attr
        line = attribute.end_lineno or attribute.lineno
        found = {"line": line, "shown": ast.unparse(attribute), "owner": owner.shown, "name": name}
        if name not in owner.names | owner.below:
            if owner.may_be_more and not _is_misspelt(name, owner.names, id(attribute) in self._calls):
                return None
            return {**found, "known": sorted(name for name in owner.names if not name.startswith("_"))}
        call, taken = self._calls.get(id(attribute)), owner.methods.get(name)
        for one in call.keywords if call is not None and taken is not None else ():
            if one.arg is not None and taken is not None and one.arg not in taken | NEWER:
                shown = f"{owner.shown}.{name}"
                return {
                    **found,
                    "line": one.lineno,
                    "owner": shown,
                    "name": one.arg,
                    "known": sorted(taken),
                    "is_keyword": True,
                }
        return None

    def _bound_names(self) -> frozenset[str]:
        """Every name that the source binds anywhere: it may mean something else than Python's own."""
        found: set[str] = set()
        for node in ast.walk(self._tree):
            found.update(bound_by(node))
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update(one.asname or one.name.partition(".")[0] for one in node.names)
        return frozenset(found)

    # -- which class -------------------------------------------------------------------------------------------------

    def _owner(self, use: ValueUse) -> _Class | None:
        """The class of a value; None: it is not sure."""
        if use.in_class:
            found = _project_class(self._tree, use.in_class)
            return None if found is None else found._replace(may_be_more=True)
        return self._joined(use.origins, use.names, 0)

    def _joined(self, origins: Iterable[Origin], names: Origins, depth: int) -> _Class | None:
        """Of a value of one of these origins: it has what any of them has."""
        found: list[_Class] = []
        for one in origins:
            if isinstance(one.node, ast.AugAssign) or _is_none(one.node):
                continue
            owner = self._annotated(one.node, depth) if one.is_annotation else self._class_of(one.node, names, depth)
            if owner is None:
                return None
            found.append(owner)
        if len(found) < 2:
            return found[0] if found else None
        together = frozenset().union(*(one.names | one.below for one in found[1:]))
        is_more = any(one.may_be_more for one in found)
        return found[0]._replace(below=found[0].below | together, may_be_more=is_more, methods={})

    def _class_of(self, node: ast.expr, names: Origins, depth: int) -> _Class | None:
        match node:
            case ast.Constant(value=value):
                kind: type = type(value)
                return _runtime_class(kind)
            case ast.JoinedStr():
                return _runtime_class(str)
            case ast.List() | ast.ListComp():
                return _runtime_class(list)
            case ast.Dict() | ast.DictComp():
                return _runtime_class(dict)
            case ast.Set() | ast.SetComp():
                return _runtime_class(set)
            case ast.Tuple():
                return _runtime_class(tuple)
            case ast.Name(id=name) if name in names and depth < _MAX_DEPTH:
                return self._joined(names[name], names, depth + 1)
            case ast.Await(value=ast.Call(func=ast.Name(id=name))):
                return self._returned(name, ast.AsyncFunctionDef, depth)
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                return self._returned(name, ast.FunctionDef, depth)
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _RETURNS and depth < _MAX_DEPTH:
                return self._after(self._class_of(value, names, depth + 1), method) or self._called(node.func)
            case ast.Call(func=called):
                return self._called(called)
        return None

    @cached_property
    def _functions(self) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions at the top whose name nothing else binds, and that nothing wraps."""
        times: dict[str, int] = {}
        for node in ast.walk(self._tree):
            for name in bound_by(node):
                times[name] = times.get(name, 0) + 1
        functions = (node for node in self._tree.body if isinstance(node, FUNCTIONS) and not node.decorator_list)
        return {node.name: node for node in functions if times[node.name] == 1}

    def _returned(self, name: str, kind: type[ast.AST], depth: int) -> _Class | None:
        """What a function of the source says that it returns."""
        function = self._functions.get(name)
        if not isinstance(function, kind) or function is None or function.returns is None:
            return None
        return self._annotated(function.returns, depth + 1)

    def _after(self, owner: _Class | None, method: str) -> _Class | None:
        """What a method of a class of Python's own returns."""
        returned = _RETURNS[method]
        known = owner is not None and owner.shown in returned
        return _runtime_class(returned[owner.shown]) if owner is not None and known else None

    def _annotated(self, node: ast.expr, depth: int) -> _Class | None:
        """The class that an annotation means; None: it is not sure."""
        if depth > _MAX_DEPTH:
            return None
        match node:
            case ast.Constant(value=str(text)):
                try:
                    return self._annotated(ast.parse(text.strip(), mode="eval").body, _MAX_DEPTH)
                except (SyntaxError, ValueError):
                    return None
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return self._joined((Origin(left, True), Origin(right, True)), {}, depth + 1)
            case ast.Subscript(value=ast.Name(id="Optional" | "Final" | "ClassVar" | "Required"), slice=inner):
                return self._joined((Origin(inner, True),), {}, depth + 1)
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, *_])):
                return self._joined((Origin(inner, True),), {}, depth + 1)
            case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=several)):
                return self._joined([Origin(one, True) for one in several], {}, depth + 1)
            case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)) if name in _ANNOTATIONS:
                is_python = name in _OF_TYPING or name not in self._bound
                return _builtin_annotation(_ANNOTATIONS[name]) if is_python else None
            case ast.Name(lineno=line) if line <= len(self._lines) and depth < _MAX_DEPTH:
                found = self._called(node)
                return None if found is None else _with_subclasses(found, self._tree)
        return None

    def _called(self, called: ast.expr) -> _Class | None:
        if not isinstance(called, ast.Name | ast.Attribute) or self._lookups >= _MAX_LOOKUPS:
            return None
        self._lookups += 1
        end_column = (called.end_col_offset or 1) - 1
        line = self._lines[(called.end_lineno or 1) - 1]
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
        return _project_class(_parsed(str(path)), name.name)


@cache
def _parsed(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8", "replace"))


def _is_misspelt(name: str, names: frozenset[str], is_called: bool) -> bool:
    near = difflib.get_close_matches(name, names, n=1, cutoff=_MISSPELT)
    same = "_" if is_called else "_s"  # `gate` beside `gates` is meant
    return bool(near) and near[0].strip(same) != name.strip(same)


def _is_load(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Load)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _builtin_annotation(found: tuple[type, ...]) -> _Class | None:
    """With the names of all subclasses that Python comes with: an annotation may mean one of them."""
    owners = [_runtime_class(one) for one in found]
    several = [one for one in owners if one is not None]
    if len(several) < len(found) or not several:
        return None
    below = frozenset().union(*(one.names for one in several[1:]))
    inner: type
    for kind in found:
        for inner in type.__subclasses__(kind):
            below |= frozenset(dir(inner)) if inner.__module__ in _FAMILY else frozenset()
    below |= _OF_ENUMS if str in found else frozenset()
    if found[0] in _SUBCLASSED:
        return several[0]._replace(below=below, may_be_more=True, methods={})
    return several[0]._replace(below=below)


def _with_subclasses(found: _Class, tree: ast.Module) -> _Class | None:
    """A value that is annotated with a class may be of one that is derived from it."""
    below: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(_word(base) == found.shown for base in node.bases):
            more = _names_in(node)
            if more is None:
                return None
            below |= more
    return found._replace(may_be_more=True, methods={}, below=frozenset(below))


def _word(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _project_class(tree: ast.Module, name: str) -> _Class | None:
    """A class of a source, with the names of its bases; None: it is not sure."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    if len(classes) != 1 or classes[0] not in tree.body or classes[0].keywords:
        return None
    node = classes[0]
    names = _names_in(node)
    if names is None or not all(_is_known_decorator(one) for one in node.decorator_list):
        return None
    times: dict[str, int] = {}
    for one in ast.walk(node):
        for word in bound_by(one):
            times[word] = times.get(word, 0) + 1
    inherited: dict[str, set[str] | None] = {}
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
        inherited.update(above.methods)
    methods = dict(inherited)
    for one in node.body:
        if isinstance(one, FUNCTIONS):
            is_sure = not one.decorator_list and times.get(one.name) == 1
            methods[one.name] = parameters(one.args) if is_sure else None
    return _Class(name, frozenset(names | set(dir(object))), methods=methods)


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


@cache
def _runtime_class(found: type) -> _Class | None:
    """A class of the standard library. What its methods set on `self` counts, too."""
    if found in (type(None), type(...)) or found.__name__ in _HOLDS_ANYTHING or issubclass(found, type):
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
    return _Class(shown, frozenset(names), methods=_Methods(found))


class _Methods(Mapping[str, "set[str] | None"]):
    """What the methods of a class of the standard library take by name, as they are asked for."""

    def __init__(self, owner: type) -> None:
        self._owner = owner

    def __getitem__(self, name: str) -> set[str] | None:
        return callable_keywords(inspect.getattr_static(self._owner, name, None))

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self._owner))

    def __len__(self) -> int:
        return len(dir(self._owner))


@cache
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
