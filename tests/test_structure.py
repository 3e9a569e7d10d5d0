"""The structure of the program and of its tests, held by rules."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stoker"
MOST_ROOMS = 20
MOST_LOOSE = 5
ONE_IDEA = {"ConversationKeeper": "the protocol in domain, and what implements it in the fleet"}
"""Public class names that stand for one idea in several places, and which idea that is."""
PUBLIC_UNDERSCORES = {"_replace", "_asdict", "_make", "_fields", "_exit"}
"""Names that begin with an underscore and are documented nevertheless: those of named tuples, and `os._exit`."""


def test_the_package_has_few_rooms_and_hardly_a_loose_module() -> None:
    rooms = [path for path in PACKAGE.iterdir() if path.is_dir() and list(path.rglob("*.py"))]
    beside = [ROOT / name for name in ("bench", "scripts", "training")]
    assert len(rooms) + len(beside) <= MOST_ROOMS
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_LOOSE


def test_no_two_public_classes_share_a_name_without_being_the_same_idea() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    shared = {name: where for name, where in places.items() if len(where) > 1 and name not in ONE_IDEA}
    assert shared == {}
    assert [name for name in ONE_IDEA if len(places[name]) < 2] == [], "these need no exception any more"


def test_tests_touch_nothing_private_of_what_they_test() -> None:
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in _private_names(node):
                found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {name}")
    assert found == []


def _private_names(node: ast.AST) -> list[str]:
    """What `node` reaches for that is private to somebody else: an attribute, an import, or a patched name."""
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return []
        case ast.Attribute(attr=name) if _is_private(name):
            return [name]
        case ast.ImportFrom(module=str(module), names=names) if module.startswith("stoker"):
            return [alias.name for alias in names if _is_private(alias.name)]
        case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return [name] if _is_private(name) else []
        case ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Constant(value=str(name)), *_]):
            return [name] if "._" in name else []
    return []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC_UNDERSCORES
