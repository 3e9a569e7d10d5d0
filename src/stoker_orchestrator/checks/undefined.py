"""Which names does a Python source use that nothing in it defines or imports? Pure, and linear in the text.

The scopes are those of Python's own compiler (`symtable`). A source that makes names at run time has any name.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from typing import NamedTuple

from stoker_orchestrator.checks.guards import is_guard, takes
from stoker_orchestrator.checks.name_uses import bound_by

_MAKES_NAMES = frozenset(
    ("exec", "globals", "locals", "vars", "__builtins__", "builtins", "gettext", "run_path", "_convert_", "global_enum")
)
_IMPLIED = frozenset(
    (  # noqa: SIM905
        "__file__ __name__ __doc__ __path__ __package__ __spec__ __loader__ __builtins__ __annotations__ __dict__ "
        "__class__ __module__ __qualname__ __debug__ __firstlineno__ __static_attributes__ __classdict__ "
        "__type_params__ __conditional_annotations__ WindowsError reveal_type reveal_locals get_ipython display "
        "BaseExceptionGroup ExceptionGroup EncodingWarning PythonFinalizationError aiter anext _ __ "
    ).split()
)
"""Names that Python, a type checker or a notebook gives, in some version."""
_BUILTIN = frozenset(dir(builtins)) | _IMPLIED
_HANDLED = ("NameError", "ImportError", "ModuleNotFoundError")
_MAX_COMPARED = 500_000
"""Names times scopes of one scope: `symtable` compares each with each, and holds up the process meanwhile."""

CALLED = "()"


class UndefinedName(NamedTuple):
    line: int
    name: str
    runs_at_once: bool
    """What follows in the file comes too late: the use runs while the file is read."""
    then: str = ""
    """What follows the name: an attribute, CALLED, or nothing of these."""


def undefined_names(source: str, tree: ast.Module) -> list[UndefinedName]:
    """The first use of each, in the order of their lines. `tree`: of this source."""
    if _makes_names(tree):
        return []
    try:
        module = symtable.symtable(source, "block", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if _is_too_large(module):
        return []
    unbound = _unbound(module)
    if not unbound:
        return []
    found: dict[str, UndefinedName] = {}
    for use in _uses(tree, unbound):
        best = found.get(use.name)
        if best is None or (use.runs_at_once, -use.line) > (best.runs_at_once, -best.line):
            found[use.name] = use
    return sorted(found.values(), key=lambda use: use.line)


def _makes_names(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                return True
            case ast.Name(id=word) | ast.alias(name=word) | ast.Attribute(attr=word) if word in _MAKES_NAMES:
                return True
    return False


def _is_too_large(module: symtable.SymbolTable) -> bool:
    tables = [module]
    while tables:
        table = tables.pop()
        children = table.get_children()
        if len(children) * len(table.get_identifiers()) > _MAX_COMPARED:
            return True
        tables += children
    return False


def _bound(module: symtable.SymbolTable) -> frozenset[str]:
    found = {one.get_name() for one in module.get_symbols() if _is_bound(one)}
    tables = list(module.get_children())
    while tables:
        table = tables.pop()
        found.update(one.get_name() for one in table.get_symbols() if one.is_declared_global())
        tables += table.get_children()
    return frozenset(found)


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _unbound(module: symtable.SymbolTable) -> dict[str, bool]:
    """The names that some scope looks for in the module, and in vain; whether some other scope has such a name."""
    known = _bound(module) | _BUILTIN
    missing: set[str] = set()
    local: set[str] = set()
    tables = [module]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for one in table.get_symbols():
            name = one.get_name()
            if one.is_local() or one.is_free() or one.is_parameter():
                local.add(name)
            elif one.is_referenced() and name not in known and "__" not in name:  # names of classes are mangled
                missing.add(name)
    return {name: name in local for name in missing}


class _Scope(NamedTuple):
    runs_at_once: bool = True
    is_protected: bool = False
    """A handler takes the NameError, or a test decides whether it runs."""
    is_function: bool = False
    bound: frozenset[str] = frozenset()
    """What scopes around it bind, of the names that matter."""


def _uses(tree: ast.Module, unbound: dict[str, bool]) -> Iterator[UndefinedName]:
    """With a stack of its own: sources may be nested deeply."""
    shared = frozenset(name for name, is_local in unbound.items() if is_local)
    nodes: list[tuple[ast.AST, _Scope, str]] = [(tree, _Scope(), "")]
    while nodes:
        node, scope, then = nodes.pop()
        if isinstance(node, ast.Name):
            is_use = isinstance(node.ctx, ast.Load) and node.id in unbound and node.id not in scope.bound
            if is_use and not scope.is_protected:
                yield UndefinedName(node.lineno, node.id, scope.runs_at_once, then)
        else:
            nodes.extend(_children(node, scope, shared))


def _children(node: ast.AST, scope: _Scope, shared: frozenset[str]) -> Iterator[tuple[ast.AST, _Scope, str]]:
    """The parts of a node, each with its scope. `shared`: names that are local somewhere, and missing elsewhere."""
    later = scope._replace(runs_at_once=False)
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            inner = _function_scope(node, later, shared)
            body: list[ast.stmt] | list[ast.expr] = [node.body] if isinstance(node, ast.Lambda) else node.body
            yield from ((one, inner, "") for one in body)
            defaults = (*node.args.defaults, *node.args.kw_defaults)
            yield from ((one, scope, "") for one in defaults if one is not None)
            arguments = (one for one in ast.iter_child_nodes(node.args) if isinstance(one, ast.arg))
            yield from ((one.annotation, later, "") for one in arguments if one.annotation is not None)
            if not isinstance(node, ast.Lambda):
                yield from ((one, scope, "") for one in node.decorator_list)
                if node.returns is not None:
                    yield node.returns, later, ""
            return
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            scope = _function_scope(node, later if isinstance(node, ast.GeneratorExp) else scope, shared)
        case ast.ClassDef() if shared:
            scope = scope._replace(bound=scope.bound | _bound_within(node, shared, False))
        case ast.AnnAssign(target=target, annotation=annotation, value=value):
            yield target, scope, ""
            yield annotation, later, ""
            if value is not None:
                yield value, scope, ""
            return
        case ast.Attribute(value=ast.Name() as name, attr=attribute):
            yield name, scope, attribute
            return
        case ast.Call(func=ast.Name() as name, args=args, keywords=keywords):
            yield name, scope, CALLED
            yield from ((one, scope, "") for one in (*args, *keywords))
            return
        case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers):
            scope = scope._replace(is_protected=scope.is_protected or any(takes(one, _HANDLED) for one in handlers))
        case ast.If() | ast.IfExp() | ast.With() | ast.AsyncWith() | ast.While() if is_guard(node):
            scope = scope._replace(is_protected=True)
    yield from ((child, scope, "") for child in ast.iter_child_nodes(node))


def _function_scope(node: ast.AST, scope: _Scope, shared: frozenset[str]) -> _Scope:
    """Of the outermost function all that it binds counts, so that each node is looked at once."""
    if scope.is_function or not shared:
        return scope
    return scope._replace(is_function=True, bound=scope.bound | _bound_within(node, shared, True))


def _bound_within(scope: ast.AST, shared: frozenset[str], with_functions: bool) -> frozenset[str]:
    found: set[str] = set()
    nodes = [scope]
    while nodes:
        node = nodes.pop()
        found.update(bound_by(node))
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(one.asname or one.name.partition(".")[0] for one in node.names)
        if with_functions or node is scope or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes.extend(ast.iter_child_nodes(node))
    return frozenset(found & shared)
