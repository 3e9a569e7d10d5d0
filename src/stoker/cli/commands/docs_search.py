"""Search in the pages: pure, linear in their text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_EXCERPT = 100
"""Characters of the text that are shown with a hit."""


class PageSection(NamedTuple):
    """A page, or a part of it under a heading.

    location: its address in the site, like `guides/share/#keys`. page: the title of its page. title: its own. text:
    what stands under the heading, as plain text.
    """

    location: str
    page: str
    title: str
    text: str


class Hit(NamedTuple):
    """A section that was found, with the words around the first place."""

    section: PageSection
    excerpt: str


def find(sections: Iterable[PageSection], term: str, limit: int) -> list[Hit]:
    """The sections that have all words of `term`, the best first: by name of the page, heading, then text."""
    name = term.lower().removesuffix(".md").removeprefix("docs/").strip("/ ")
    words = [word.removesuffix("s") if len(word) > 3 else word for word in name.split()]
    found = [(_score(one, name, words), one) for one in sections]
    best = sorted((one for one in found if one[0]), key=lambda one: -one[0])[:limit]
    return [Hit(section, _excerpt(section.text, words[0])) for _, section in best]


def _score(section: PageSection, wanted: str, words: list[str]) -> int:
    """0: not found. A whole page of that name is far above all, a heading with the words above text.

    words: those of `wanted` without the s of a plural.
    """
    name = section.location.partition("#")[0].strip("/").lower()
    title, text = section.title.lower(), section.text.lower()
    if not words or not all(word in title or word in text or word in name for word in words):
        return 0
    is_named = "#" not in section.location and wanted in (name, name.rpartition("/")[2])
    in_title = sum(1 for word in words if re.search(rf"\b{re.escape(word)}", title))
    return 1000 * is_named + 50 * in_title + min(20, sum(text.count(word) for word in words)) + 1


def _excerpt(text: str, word: str) -> str:
    """The words around the first place of `word`."""
    start = max(text.lower().find(word) - _EXCERPT // 3, 0)
    part = text[start : start + _EXCERPT]
    return ("... " if start else "") + " ".join(part.split()) + (" ..." if start + _EXCERPT < len(text) else "")
