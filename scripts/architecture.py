"""Picture, module map and extensions of docs/how-it-works/architecture.md.   scripts/architecture.py [--write]

A room is a folder of src/stoker. An arrow says that the first room imports the second one, at the top of a module, in
a function or for types alone. An arrow is left out where others lead the same way. The map has the first sentence of
each folder's docstring. Without --write it says whether the page is in step, and exits 1 if it is not.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, PAGE = ROOT / "src" / "stoker", ROOT / "docs" / "how-it-works" / "architecture.md"
DATA = ("models",)
"""Folders without code."""
IMPORT = re.compile(r"^ *(?:from|import) stoker\.(\w+)", re.MULTILINE)
BLOCK = re.compile(r"(<!-- generated: (picture|map|extensions) -->\n).*?(<!-- end generated -->)", re.DOTALL)


def folders(parent: Path) -> list[Path]:
    return sorted(path.parent for path in parent.glob("*/__init__.py"))


@cache
def imports() -> dict[str, set[str]]:
    """For each room the other rooms that it imports."""
    found: dict[str, set[str]] = {folder.name: set() for folder in folders(PACKAGE)}
    for room in found:
        for module in (PACKAGE / room).rglob("*.py"):
            found[room] |= set(IMPORT.findall(module.read_text(encoding="utf-8"))) & found.keys()
        found[room].discard(room)
    return found


def arrows() -> set[tuple[str, str]]:
    """The imports that no longer way replaces. The rooms have no circle: an import contract says so."""
    direct = imports()
    reached: dict[str, set[str]] = defaultdict(set)

    def reach(room: str) -> set[str]:
        if room not in reached:
            reached[room] = direct[room].union(*(reach(other) for other in direct[room]))
        return reached[room]

    return {
        (room, other)
        for room in direct
        for other in direct[room]
        if not any(other in reach(between) for between in direct[room])
    }


def picture() -> str:
    lines = ["```mermaid", "flowchart TD"]
    lines += [f"    {room} --> {other}" for room, other in sorted(arrows())]
    return "\n".join([*lines, "```"])


def first_sentence(folder: Path) -> str:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).rstrip(".").replace("|", "\\|")


def module_map() -> str:
    rows = ["| folder | what it holds |", "|---|---|"]
    for room in folders(PACKAGE):
        rows.append(f"| **`{room.name}/`** | {first_sentence(room)} |")
        rows += [f"| `{room.name}/{folder.name}/` | {first_sentence(folder)} |" for folder in folders(room)]
    return "\n".join(rows)


def extensions() -> str:
    """The packages beside the core."""
    rows = ["| package | what it holds |", "|---|---|"]
    rows += [
        f"| `{folder.name}` | {first_sentence(folder)} |" for folder in folders(PACKAGE.parent) if folder != PACKAGE
    ]
    return "\n".join(rows)


def filled(text: str) -> str:
    """The page with picture and map as they should be."""
    made = {"picture": picture, "map": module_map, "extensions": extensions}
    return BLOCK.sub(lambda block: f"{block[1]}{made[block[2]]()}\n{block[3]}", text)


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    wanted = filled(text)
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if text != wanted:
        print("docs/how-it-works/architecture.md is not in step: run scripts/architecture.py --write")
    return int(text != wanted)


if __name__ == "__main__":
    sys.exit(main())
