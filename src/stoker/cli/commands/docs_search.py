"""Search in the pages: pure, linear in their text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_EXCERPT = 100
"""Characters of the text that are shown with a hit."""
_MESSAGES = "reference/messages"
"""The page that lists what the program says."""
_SMALL = {"a", "an", "and", "do", "for", "how", "i", "in", "is", "of", "on", "the", "to"}
"""Words that are not looked for."""
_SPACED = str.maketrans("_-", "  ")


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
    """The sections that have all words of `term`, the best first.

    1. a page or section of that address
    2. words in the heading, words in the title of the page
    3. the words side by side (`idle_unload` counts for "idle unload")
    4. much of a short text before little of a long one, and messages of the program last
    """
    name = term.lower().removesuffix(".md").removeprefix("docs/").strip("/ ")
    words = [word.removesuffix("s") if len(word) > 3 else word for word in name.split() if word not in _SMALL]
    together = re.compile(r"\w* ".join(rf"\b{re.escape(_spaced(word))}" for word in words))
    found = [(_score(one, name, words, together), one) for one in sections] if words else []
    best = sorted((one for one in found if one[0]), key=lambda one: -one[0])[:limit]
    return [Hit(section, _excerpt(section.text, words[0], together)) for _, section in best]


def _spaced(text: str) -> str:
    """In small letters, with the words of a key apart. As long as `text`."""
    return text.translate(_SPACED).lower()


def _score(section: PageSection, wanted: str, words: list[str], together: re.Pattern[str]) -> float:
    """0: not found. `words`: those of `wanted` without the s of a plural."""
    page = section.location.partition("#")[0].strip("/").lower()
    is_named = wanted == section.location or ("#" not in section.location and wanted in (page, page.rpartition("/")[2]))
    title, text = section.title.lower(), section.text.lower()
    if not is_named and not all(word in title or word in text or word in page for word in words):
        return 0.0
    in_title, in_page = (
        sum(1 for word in words if re.search(rf"\b{re.escape(word)}", one)) for one in (title, section.page.lower())
    )
    is_together = len(words) > 1 and (together.search(_spaced(title)) or together.search(_spaced(text))) is not None
    share = len(words) * min(text.count(word) for word in words) / (len(text.split()) + 50)
    score = 50 * in_title + 10 * in_page + 20 * is_together + 20 * min(1.0, 10 * share) + 1
    return 1000 * is_named + (score / 2 if page == _MESSAGES else score)


def _excerpt(text: str, word: str, together: re.Pattern[str]) -> str:
    """The words around the first place where they stand side by side, or of `word`."""
    spaced = _spaced(text)
    place = together.search(spaced)
    start = max((place.start() if place else spaced.find(word)) - _EXCERPT // 3, 0)
    part = text[start : start + _EXCERPT]
    return ("... " if start else "") + " ".join(part.split()) + (" ..." if start + _EXCERPT < len(text) else "")
