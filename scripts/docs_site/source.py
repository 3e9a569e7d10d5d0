"""The pages as the generator wants them: docs/ at the top, links changed accordingly, and every file that is linked.

The Markdown in git is not touched, and stays what GitHub shows.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from scripts.docs_links import FENCE, INLINE, without_code

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Path(__file__).with_name("site.toml")
NAMED = {"README.md": "index.md", "docs/README.md": "index.md", "CHANGELOG.md": "changelog.md"}
"""The places of files that are not where they are in git. The list of pages is what the navigation is for."""
SHORT_INDENT = re.compile(r"^ {2,3}(?=[^ \n])", re.MULTILINE)

ITEM = re.compile(r"( *)(?:[-*+]|1\.) +\S")
"""The first line of an item that may follow text without a blank line between them."""
TEXT = re.compile(r"( *)(?!(?:[-*+]|\d+[.)]) )[^ |#>]")
"""A line of text, neither an item nor a row of a table."""


class BrokenLink(Exception):
    """A page links to what is not there."""


def settings() -> dict[str, Any]:
    return tomllib.loads(SETTINGS.read_text(encoding="utf-8"))


def in_navigation(node: Any) -> Iterator[str]:
    """The pages that a navigation names, by their path in the site."""
    if isinstance(node, str):
        yield node
    for one in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from in_navigation(one)


def pages() -> list[Path]:
    """The pages of docs/, but for the list of them."""
    return sorted(set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "README.md"})


def place(file: Path) -> str:
    """Where a file of the repository is in the site."""
    path = re.sub(r"(^|/)\.", r"\1", file.relative_to(ROOT).as_posix())  # the generator leaves hidden files out
    return NAMED.get(path, path.removeprefix("docs/"))


def write(folder: Path) -> list[str]:
    """Write the source of the site, made from the navigation and all that its pages link to. The paths in the site.

    Raises BrokenLink.
    """
    begin = [ROOT / "README.md", ROOT / "CHANGELOG.md", *pages()]
    waiting = [*begin, *(ROOT / path for path in in_navigation(settings()["nav"]) if (ROOT / path).is_file())]
    done: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file in done or file == ROOT / "docs" / "README.md":
            continue
        done.add(file)
        target = folder / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text, found = rewritten(file)
            target.write_text(text, encoding="utf-8")
            waiting += found
        else:
            shutil.copyfile(file, target)
    return sorted(place(file) for file in done)


def rewritten(page: Path) -> tuple[str, list[Path]]:
    """A page with the links of the site, and the files to which they lead."""
    text, found = page.read_text(encoding="utf-8"), []
    for link in reversed(list(INLINE.finditer(without_code(text)))):
        group = 1 if link[1] else 2
        path, hash_, anchor = (link[group] or "").partition("#")
        if not path or re.match(r"[a-z][a-z0-9+.-]*:|//", path):
            continue
        file = (page.parent / unquote(path)).resolve()
        if not file.is_relative_to(ROOT) or not file.exists():
            raise BrokenLink(f"{page.relative_to(ROOT)}: link to {path}, which is not there")
        file = file / "README.md" if file.is_dir() else file
        if not file.is_file():
            raise BrokenLink(f"{page.relative_to(ROOT)}: link to the folder {path}, which has no README.md")
        found.append(file)
        new = os.path.relpath(place(file), os.path.dirname(place(page)) or ".") + hash_ + anchor
        text = text[: link.start(group)] + new + text[link.end(group) :]
    return indented(text), found


def indented(text: str) -> str:
    """The same lists as the generator reads them: continued by four blanks, and after a blank line."""
    code = [found.span() for found in FENCE.finditer(text) if not found[0].startswith("  ")]
    text = SHORT_INDENT.sub(lambda m: m[0] if any(start < m.start() < end for start, end in code) else "    ", text)
    plain, lines = without_code(text).split("\n"), text.split("\n")
    for number in range(len(lines) - 1, 0, -1):
        before, item = TEXT.match(plain[number - 1]), ITEM.match(plain[number])
        if item and before and (before[1] == item[1] or _is_paragraph(plain, number - 1)):
            lines.insert(number, "")
    return "\n".join(lines)


def _is_paragraph(lines: list[str], number: int) -> bool:
    """Whether the text of this line began after a blank line, and not with the item of a list."""
    while number >= 0 and TEXT.match(lines[number]):
        number -= 1
    return number < 0 or not lines[number].strip()
