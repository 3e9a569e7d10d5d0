"""A web page as text: its main part, with headings, lists and links as Markdown.

Linear in the page, whatever it holds; `html.parser` takes minutes for 200 kB of `<!--`. It reads tags and forgives what
browsers forgive; a `>` within quotes ends a tag here.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urljoin

_SKIPPED = frozenset(("nav", "header", "footer", "form", "noscript", "template", "svg", "iframe", "aside", "select",
                      "button"))  # fmt: skip
_RAW = {
    name: re.compile(f"</{name}", re.IGNORECASE) for name in ("script", "style", "textarea", "title", "xmp", "noembed")
}
"""Elements in which there are no tags but their own end."""
_MAIN = frozenset(("main", "article"))
_BLOCKS = frozenset(("p", "div", "section", "table", "tr", "ul", "ol", "blockquote", "pre", "figure", "br", "hr", "dl",
                     "dt", "dd", "main", "article", "body"))  # fmt: skip
_HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "h5": "##### ", "h6": "###### "}
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,15})(?=[\s/>])")
_HREF = re.compile(r"""\shref\s{0,9}=\s{0,9}(?:"([^"]{0,2048})"|'([^']{0,2048})'|([^\s"'>]{1,2048}))""", re.IGNORECASE)
_BLANKS = re.compile(r"[ \t\n\f\r]+")
_GAPS = re.compile(r"\n{3,}")
_LONG_NUMBER = re.compile(r"&#[0-9]{100,};?")
"""Of no character; Python raises ValueError for a very long one."""
_LONGEST_TAG = 4096
_MOST_LINKS = 500


def _unescaped(text: str) -> str:
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text))


class _Tag(NamedTuple):
    name: str
    is_end: bool
    attributes: str = ""


def _tokens(text: str) -> Iterator[str | _Tag]:
    """Text, and tags. The content of raw elements is left out, but a title's: it comes as text."""
    at = 0
    while (start := text.find("<", at)) >= 0:
        if start > at:
            yield text[at:start]
        if text.startswith("<!--", start):
            end = text.find("-->", start + 4)
            if end < 0:
                return
            at = end + 3
            continue
        found = _TAG.match(text, start)
        if found is None and text[start + 1 : start + 2] not in ("!", "?", "/"):
            yield "<"
            at = start + 1
            continue
        end = text.find(">", start)
        if end < 0:
            return
        at = end + 1
        if found is None:
            continue
        name, is_end = found.group(2).lower(), bool(found.group(1))
        if not is_end and name in _RAW:
            closing = _RAW[name].search(text, at)
            inner_end = len(text) if closing is None else closing.start()
            if name == "title":
                yield _Tag(name, False, text[at:inner_end])
            at = inner_end
            continue
        yield _Tag(name, is_end, text[found.end() : min(end, found.end() + _LONGEST_TAG)])
    yield text[at:]


class _Reader:
    def __init__(self, url: str) -> None:
        self.title = ""
        self.all: list[str] = []
        self.main: list[str] = []
        self._url = url
        self._skipped = ""
        """The element that is left out with all that is in it; and how many of its kind are open."""
        self._depth = 0
        self._main = 0
        self._is_pre = False
        self._link = ""
        self._links = 0

    def on_tag(self, tag: _Tag) -> None:
        name = tag.name
        if name == "title":
            self.title = self.title or _BLANKS.sub(" ", _unescaped(tag.attributes)).strip()
        elif self._skipped:
            if name == self._skipped:
                self._depth += -1 if tag.is_end else 1
                self._skipped = self._skipped if self._depth else ""
        elif name in _SKIPPED:
            if not tag.is_end:
                self._skipped, self._depth = name, 1
        elif name == "a":
            self._end_link()
            if not tag.is_end:
                self._begin_link(tag.attributes)
        elif name in _HEADINGS:
            self._add("\n" if tag.is_end else f"\n\n{_HEADINGS[name]}")
        elif name == "li":
            self._add("" if tag.is_end else "\n- ")
        elif name in ("td", "th"):
            self._add("" if tag.is_end else " | ")
        elif name in _BLOCKS:
            if name in _MAIN:
                self._main = max(0, self._main + (-1 if tag.is_end else 1))
            self._is_pre = not tag.is_end if name == "pre" else self._is_pre
            self._add("\n\n" if name == "p" and not tag.is_end else "\n")

    def on_text(self, text: str) -> None:
        if not self._skipped:
            text = _unescaped(text)
            self._add(text if self._is_pre else _BLANKS.sub(" ", text))

    def _begin_link(self, attributes: str) -> None:
        found = _HREF.search(attributes) if self._links < _MOST_LINKS else None
        if found is None:
            return
        try:
            address = urljoin(self._url, _unescaped(next(part for part in found.groups() if part is not None)))
        except ValueError:
            return
        if address.startswith(("http://", "https://")):
            self._link = address
            self._links += 1
            self._add("[")

    def _end_link(self) -> None:
        link, self._link = self._link, ""
        if link:
            self._add(f"]({link})")

    def _add(self, text: str) -> None:
        self.all.append(text)
        if self._main:
            self.main.append(text)


def page_text(page: str, url: str) -> tuple[str, str]:
    """Title and text. `url`: of the page, to which its links are relative."""
    reader = _Reader(url)
    for token in _tokens(page):
        if isinstance(token, _Tag):
            reader.on_tag(token)
        else:
            reader.on_text(token)
    main = "".join(reader.main)
    chosen = main if len(main.strip()) > 200 else "".join(reader.all)
    lines = "\n".join(line.strip(" \t") for line in chosen.split("\n"))
    return reader.title, _GAPS.sub("\n\n", lines).strip()
