"""docs/ of a checkout as plain pages: CommonMark by markdown-it, which rich brings along."""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from stoker_setup.commands.docs_search import PageSection
from stoker_setup.commands.docs_site import Site, plain

_STYLE = """:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: .75rem; background: color-mix(in srgb, CanvasText 7%, Canvas) }
table { display: block; overflow-x: auto; border-collapse: collapse }
td, th { border: 1px solid color-mix(in srgb, CanvasText 25%, Canvas); padding: .25rem .5rem; text-align: left }
img { max-width: 100% }"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} - Stoker</title><style>{style}</style></head>
<body><nav><a href="{top}">All pages</a></nav><main>{body}</main></body></html>
"""
_PICTURES = (".png", ".svg")


def of_folder(folder: Path) -> Site:
    """Each page of `folder` at the address that the site gives it; README.md is the first page."""
    files, sections = {}, []
    for file in sorted(folder.rglob("*.md")):
        name = file.relative_to(folder).with_suffix("").as_posix()
        address = "" if name == "README" else f"{name}/"
        body, found = _rendered(file.read_text(encoding="utf-8"), address, posixpath.dirname(name))
        title = found[0].title if found else name
        page = _PAGE.format(title=html.escape(title), style=_STYLE, top="../" * address.count("/") or "./", body=body)
        files[f"{address}index.html"] = page.encode()
        sections += found
    for picture in sorted(folder.rglob("*")):
        if picture.suffix in _PICTURES:
            files[picture.relative_to(folder).as_posix()] = picture.read_bytes()
    return Site(files, sections, folder)


def _rendered(text: str, address: str, folder: str) -> tuple[str, list[PageSection]]:
    """The page as HTML, with links of the site and anchors as GitHub spells them, and its sections."""
    markdown = MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse(text)
    sections: list[PageSection] = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            title = plain(markdown.renderer.render(tokens[number + 1].children or [], markdown.options, {}))
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            token.attrSet("id", anchor)
            page = sections[0].title if sections else title
            sections.append(PageSection(f"{address}#{anchor}" if sections else address, page, title, ""))
        elif sections and token.type in ("inline", "fence", "code_block") and tokens[number - 1].type != "heading_open":
            words = " ".join(child.content for child in token.children) if token.children else token.content
            sections[-1] = sections[-1]._replace(text=f"{sections[-1].text} {' '.join(words.split())}".strip())
        for child in token.children or ():
            _lead(child, address, folder)
    return markdown.renderer.render(tokens, markdown.options, {}), sections


def _lead(token: Any, address: str, folder: str) -> None:
    """Make the link or picture of a token one of the site: `share.md#keys` is `../share/#keys`."""
    name = {"link_open": "href", "image": "src"}.get(token.type)
    given = str(token.attrGet(name) or "") if name else ""
    path, hash_, anchor = given.partition("#")
    if name is None or not path or re.match(r"[a-z][a-z0-9+.-]*:|//", path):
        return
    target = posixpath.normpath(posixpath.join(folder, path))
    if target.endswith(".md"):
        target = target.removesuffix(".md").removesuffix("README")
    at = posixpath.relpath(target or ".", address or ".")
    is_page = path.endswith(".md")
    token.attrSet(name, f"{at}/" * is_page + at * (not is_page) + hash_ + anchor)
