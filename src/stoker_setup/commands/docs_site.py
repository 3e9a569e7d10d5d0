"""The pages as a web site in memory, and the archive of a release that holds one: 1.3 MB, 9 MB in memory."""

from __future__ import annotations

import html
import json
import lzma
import re
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

from stoker.domain.errors import StokerError
from stoker_setup.commands.docs_search import PageSection

_TAGS = re.compile(r"<[^>]*>")


class NoDocumentation(StokerError):
    """This installation has no pages, or they cannot be read."""

    code = "no_documentation"


class Site(NamedTuple):
    """`files`: the content by the path, `index.html` included. `sections`: what a search looks through. `folder`: where
    the pages are as files; None: in an archive.
    """

    files: dict[str, bytes]
    sections: list[PageSection]
    folder: Path | None = None

    def how_to_open(self, location: str) -> str:
        """The file of a page, or the command that shows it."""
        if self.folder is None:
            return f"stoker docs {location}".rstrip()
        page = location.partition("#")[0].strip("/") or "README"
        return str(self.folder / f"{page}.md")


def of_archive(file: Path) -> Site:
    """Raises NoDocumentation if it is damaged."""
    try:
        with lzma.open(file) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
            files = {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}  # type: ignore[union-attr]
        items = json.loads(files["search.json"])["items"]
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, KeyError, ValueError) as error:
        raise NoDocumentation(f"{file} cannot be read ({error}): install Stoker again") from None
    return Site(files, [_section(item) for item in items])


def _section(item: dict[str, Any]) -> PageSection:
    """An entry of the search index; its text is HTML."""
    title, path = plain(item["title"]), [plain(part) for part in item.get("path") or ()]
    return PageSection(item["location"], path[-1] if path else title, title, plain(item["text"]))


def plain(text: str) -> str:
    return " ".join(html.unescape(_TAGS.sub(" ", text)).split())
