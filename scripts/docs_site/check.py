"""What is wrong with the built site of a version.

Links, anchors, other hosts, pages that do not tell the version, and pages that the generator reads in another way than
CommonMark, and so GitHub, does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from scripts.docs_site import source

OTHER_HOST = re.compile(r"^(?:https?:)?//")
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""What a browser fetches by itself, by the attribute that names it."""
ASKED = re.compile(r"url\(\s*['\"]?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*|fetch\(\"https?://[^\"]*")


STRUCTURE = ("ul", "ol", "li", "table", "tr", "td", "pre", "h1", "h2", "h3", "h4", "img", "strong")
ARTICLE = re.compile(r"<article\b.*?</article>", re.DOTALL)


class Tags(HTMLParser):
    """How often each tag of STRUCTURE is in a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in STRUCTURE:
            self.counts[tag] += 1


class Page(HTMLParser):
    """The identifiers, links and resources of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get("rel") not in ("prev", "next", "canonical") and LOADED.get(tag, "") in given:
            self.loaded.append(given[LOADED[tag]])


def problems(site: Path, version: str) -> Iterator[str]:
    """Each problem as FILE: what. `site`: the folder of this version."""
    yield from of_pages(site, version)
    yield from _read_otherwise(site)


def of_pages(site: Path, version: str) -> Iterator[str]:
    """What is wrong with the pages, style sheets and the script of the theme by themselves."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(site).as_posix()
        yield from (f"{name}: {one}" for one in _of_links(file, page, pages, site) if name != "404.html")
        yield from (f"{name}: loads {one} from another host" for one in page.loaded if OTHER_HOST.match(one))
        if f"Stoker {version}" not in file.read_text(encoding="utf-8"):
            yield f"{name}: does not tell the version"
    for file in sorted((*site.rglob("*.css"), *site.rglob("bundle.*.js"))):
        found = ASKED.findall(file.read_text(encoding="utf-8"))
        yield from (f"{file.relative_to(site)}: asks another host: {one}" for one in found)


def _read_otherwise(site: Path) -> Iterator[str]:
    """The pages of docs/ whose lists, tables, code or headings are others in the site."""
    for page in source.pages():
        wanted = Tags(MarkdownIt("commonmark").enable("table").render(page.read_text(encoding="utf-8"))).counts
        built = site / source.place(page).removesuffix(".md") / "index.html"
        article = ARTICLE.search(built.read_text(encoding="utf-8"))
        shown = Tags(article[0] if article else "").counts
        if others := [f"{tag} {shown[tag]}, not {wanted[tag]}" for tag in STRUCTURE if shown[tag] != wanted[tag]]:
            yield f"{page.relative_to(source.ROOT)}: the site reads it otherwise than CommonMark: {'; '.join(others)}"


def _of_links(file: Path, page: Page, pages: dict[Path, Page], site: Path) -> Iterator[str]:
    for link in [*page.links, *page.loaded]:
        path, _, anchor = link.partition("#")
        if OTHER_HOST.match(link) or re.match(r"[a-z]+:", link):
            continue
        target = (file.parent / unquote(path)).resolve() if path else file
        target = target / "index.html" if target.is_dir() else target
        if not target.is_relative_to(site.resolve()) or not target.is_file():
            yield f"link to {link}, which is not there"
        elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
            yield f"link to {link}, an anchor that is not there"
