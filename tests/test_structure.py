"""The structure of the program and of its tests, held by rules."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from tests.order import LONGEST

ROOT = Path(__file__).parents[1]
PUBLIC_UNDERSCORES = {"_replace", "_asdict", "_make", "_fields", "_exit"}
"""Names that begin with an underscore and are documented nevertheless: those of named tuples, and `os._exit`."""


def test_the_files_of_tests_that_begin_first_exist() -> None:
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []


def test_tests_touch_nothing_private_of_what_they_test() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests").rglob("*.py"))}
    own = _own_names(trees.values())
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            for name in [*_private_names(node), *_inherited_private_names(node, own)]:
                found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {name}")
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "keeper._store",
        "from stoker.cli.main import _app",
        "from bench.upstream import _plain",
        "monkeypatch.setattr(pool, '_idle', {})",
        "monkeypatch.setattr('stoker.request.relay.pool._idle', {})",
        "setattr(pool, '_idle', {})",
        "getattr(pool, '_idle')",
        "class Watched(Pool):\n    def size(self):\n        return len(self._idle)",
    ],
)
def test_every_way_to_something_private_is_found(source: str) -> None:
    tree = ast.parse(source)
    own = _own_names([tree])
    assert [name for node in ast.walk(tree) for name in (*_private_names(node), *_inherited_private_names(node, own))]


def test_what_a_test_class_defines_or_a_named_tuple_offers_is_not_private() -> None:
    tree = ast.parse(
        "class Base:\n    def __init__(self):\n        self._lines = []\n"
        "class Stage(Base):\n    def clear(self):\n        self._lines.clear()\n"
        "point._replace(x=1)"
    )
    own = _own_names([tree])
    assert not [
        name for node in ast.walk(tree) for name in (*_private_names(node), *_inherited_private_names(node, own))
    ]


def _private_names(node: ast.AST) -> list[str]:
    """What `node` reaches for that is private to somebody else: an attribute, an import, or a patched name."""
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return []  # see _inherited_private_names
        case ast.Attribute(attr=name) if _is_private(name):
            return [name]
        case ast.ImportFrom(names=names):
            return [alias.name for alias in names if _is_private(alias.name)]
        case ast.Call(
            func=ast.Attribute(attr="setattr" | "delattr") | ast.Name(id="getattr" | "setattr" | "delattr" | "hasattr"),
            args=[_, ast.Constant(value=str(name)), *_],
        ):
            return [name] if _is_private(name) else []
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(name)), *_]):
            return [name] if "._" in name else []
    return []


def _inherited_private_names(node: ast.AST, own: Mapping[str, set[str]]) -> list[str]:
    """Private attributes of `self` that come from a base class which no test defines. `own`: see _own_names."""
    if not isinstance(node, ast.ClassDef):
        return []
    names = own[node.name].union(*(own.get(ast.unparse(base), set()) for base in node.bases))
    return [name for name in _attributes_of_self(node) if _is_private(name) and name not in names]


def _own_names(trees: Iterable[ast.AST]) -> dict[str, set[str]]:
    """What the classes of these trees define themselves, by the name of the class."""
    own: dict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own[node.name] |= set(_attributes_of_self(node, ast.Store)) | {
                    name for part in ast.walk(node) for name in _defined_names(part)
                }
    return own


def _attributes_of_self(node: ast.ClassDef, context: type[ast.expr_context] = ast.expr_context) -> list[str]:
    return [
        part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id in ("self", "cls")
        and isinstance(part.ctx, context)
    ]


def _defined_names(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_UNDERSCORES
