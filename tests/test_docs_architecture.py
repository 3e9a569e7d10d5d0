"""docs/how-it-works/architecture.md shows the rooms and the imports that there are."""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "stoker"
PAGE = (ROOT / "docs" / "how-it-works" / "architecture.md").read_text(encoding="utf-8")
ARROWS = set(re.findall(r"^    (\w+) --> (\w+)$", PAGE, re.MULTILINE))
ROOMS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "architecture.py"))


def ways(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Each pair of rooms between which arrows lead."""
    found = set(arrows)
    while longer := {(a, d) for a, b in found for c, d in arrows if b == c} - found:
        found |= longer
    return found


def imported() -> set[tuple[str, str]]:
    """Pairs of rooms by the text of the modules: what the script finds by their syntax."""
    statement = re.compile(r"^\s*(?:from|import) stoker\.(\w+)", re.MULTILINE)
    return {
        (room, other)
        for room in ROOMS
        for module in (PACKAGE / room).rglob("*.py")
        for other in statement.findall(module.read_text(encoding="utf-8"))
        if other in ROOMS and other != room
    }


def test_the_picture_has_each_room_and_no_other() -> None:
    assert {room for arrow in ARROWS for room in arrow} == ROOMS


def test_the_arrows_lead_where_the_imports_lead() -> None:
    assert ways(ARROWS) == ways(imported()), "run scripts/architecture.py --write"


def test_each_arrow_is_an_import_that_no_other_arrows_replace() -> None:
    assert imported() >= ARROWS
    for arrow in ARROWS:
        assert arrow not in ways(ARROWS - {arrow})


def test_the_rooms_have_no_circle() -> None:
    assert {pair for pair in ways(imported()) if pair[0] == pair[1]} == set()


def test_the_map_has_each_folder_with_code_and_what_it_holds() -> None:
    rows = dict(re.findall(r"^\| \*{0,2}`([\w/]+)/`\*{0,2} \| (.+) \|$", PAGE, re.MULTILINE))
    folders = [*PACKAGE.glob("*/__init__.py"), *PACKAGE.glob("*/*/__init__.py")]
    assert set(rows) == {str(path.parent.relative_to(PACKAGE)) for path in folders}


def test_each_folder_of_the_map_can_be_imported() -> None:
    for folder in re.findall(r"^\| \*{0,2}`([\w/]+)/`", PAGE, re.MULTILINE):
        assert importlib.util.find_spec(f"stoker.{folder.replace('/', '.')}"), folder


def test_the_page_is_what_the_script_makes(script: dict[str, Any]) -> None:
    assert script["filled"](PAGE) == PAGE, "run scripts/architecture.py --write"


def test_a_stale_page_is_named_with_the_command(
    script: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "page.md"
    stale.write_text(PAGE.replace("cli --> app", "app --> cli"))
    main = script["main"]
    monkeypatch.setitem(main.__globals__, "PAGE", stale)
    monkeypatch.setattr(sys, "argv", ["architecture.py"])
    assert main() == 1
    assert "scripts/architecture.py --write" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["architecture.py", "--write"])
    assert main() == 0
    assert stale.read_text() == PAGE
