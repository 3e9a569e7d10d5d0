"""The map in each folder's `__init__.py` names what is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
ENTRY = re.compile(r"^ *((?:[a-z][a-z_0-9]*/?(?:, (?=[a-z_0-9/, ]+  ))?)+)  +\S", re.MULTILINE)
"""One or more names at the beginning of a line, then two blanks at least, then what they are."""


def names_in(docstring: str) -> list[str]:
    return [name.strip(" /") for found in ENTRY.findall(docstring) for name in found.split(",")]


def test_an_entry_is_read() -> None:
    assert names_in("Map.\n\nflow, call  two\n  deep/  one   other  two\nplain words here\n") == [
        "flow",
        "call",
        "deep",
    ]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("__init__.py")), ids=lambda path: str(path.parent.name))
def test_each_map_names_files_and_folders_that_exist(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    here = {found.stem for found in path.parent.iterdir()}
    assert [name for name in names_in(docstring) if name not in here] == []
