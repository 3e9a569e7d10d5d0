"""The pages as a web site in memory: the archive that a release ships, or in a checkout what docs/ holds.

archive    docs.tar.xz beside the program: made by scripts/docs-site --archive, 1.3 MB, 9 MB in memory
checkout   docs/*.md, as plain pages without a search box
"""

from __future__ import annotations

import html
import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import stoker
from stoker.cli.commands.docs_search import Section
from stoker.domain.errors import StokerError

ARCHIVE = Path(stoker.__file__).with_name("docs.tar.xz")
CHECKOUT = Path(stoker.__file__).parents[2] / "docs"
_TAGS = re.compile(r"<[^>]*>")


class NoDocumentation(StokerError):
    """This installation has no pages, or they cannot be read."""

    code = "no_documentation"


class Site(NamedTuple):
    """`files`: the content by the path, `index.html` included. `sections`: what a search looks through."""

    files: dict[str, bytes]
    sections: list[Section]


def load() -> Site:
    """Raises NoDocumentation."""
    if ARCHIVE.is_file():
        return of_archive(ARCHIVE)
    if (CHECKOUT / "get-started.md").is_file():
        from stoker.cli.commands.docs_pages import of_folder

        return of_folder(CHECKOUT)
    raise NoDocumentation(
        f"this installation has no documentation: it was not made by scripts/release, and {CHECKOUT} is not there; "
        "install a released version"
    )


def of_archive(file: Path) -> Site:
    """Raises NoDocumentation if it is damaged."""
    try:
        with lzma.open(file) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
            files = {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # type: ignore[union-attr]
        items = json.loads(files["search.json"])["items"]
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, KeyError, ValueError) as error:
        raise NoDocumentation(f"{file} cannot be read ({error}): install Stoker again") from None
    return Site(files, [_section(item) for item in items])


def _section(item: dict[str, Any]) -> Section:
    """An entry of the search index; its text is HTML."""
    title, path = plain(item["title"]), [plain(part) for part in item.get("path") or ()]
    return Section(item["location"], path[-1] if path else title, title, plain(item["text"]))


def plain(text: str) -> str:
    return " ".join(html.unescape(_TAGS.sub(" ", text)).split())
