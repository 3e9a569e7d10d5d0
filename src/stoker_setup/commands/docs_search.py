"""Search in the pages: the sections ranked by their words, of which none has to be there (bm25, of SQLite)."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

_EXCERPT = 16
"""Words of the text that are shown with a hit; `_BEST` has the same number."""
_SMALL = frozenset(
    re.split(
        r"\s+",
        "a an and are as at be by can did do does for from how i if in is it its me my of on one or out so that the "
        "there this to use used using was what when where which who will with without you your",
    )
)
"""Words that are in every text."""
_WORD = re.compile(r"\w+")
_TABLE = "CREATE VIRTUAL TABLE pages USING fts5(title, page, text, tokenize = 'porter unicode61')"
_HAS = "SELECT rowid FROM pages WHERE pages MATCH ?"
_BEST = (
    "SELECT rowid, bm25(pages, 8, 4, 1), snippet(pages, 2, '', '', ' ... ', 16) FROM pages WHERE pages MATCH ? "
    "ORDER BY 2 LIMIT 100"
)
"""A word in the heading counts eight times, one in the title of the page four times. The less, the better."""


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
    """The sections that have words of `term`, in any form of theirs, the best first.

    1. a page or section of that address
    2. bm25: rare words, words in headings and words side by side count more (`idle_unload` counts for "idle unload"),
    and much of a short text more than little of a long one; times the share of the words that it has
    """
    every = list(sections)
    name = term.lower().removesuffix(".md").removeprefix("docs/").strip("/ ")
    named = [one for one in every if name and _is_named(one, name)]
    words = _words(term)
    found = _ranked(every, words, limit) if words else []
    others = [hit for hit in found if hit.section not in named]
    return [*(Hit(one, _beginning(one.text)) for one in named), *others][:limit]


def _is_named(section: PageSection, wanted: str) -> bool:
    page = section.location.partition("#")[0].strip("/").lower()
    is_page = "#" not in section.location and wanted in (page, page.rpartition("/")[2])
    return is_page or wanted == section.location


def _words(term: str) -> list[str]:
    words = _WORD.findall(term.replace("_", " ").lower())
    return list(dict.fromkeys(word for word in words if word not in _SMALL)) or words


def _ranked(sections: list[PageSection], words: list[str], limit: int) -> list[Hit]:
    """`words`: not empty. bm25 on its own would prefer much of one word to a little of each."""
    quoted = [f'"{word}"' for word in words]
    pairs = [f'"{a} {b}"' for a, b in pairwise(words)]
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute(_TABLE)
        rows = ((number, one.title, one.page, one.text) for number, one in enumerate(sections))
        index.executemany("INSERT INTO pages (rowid, title, page, text) VALUES (?, ?, ?, ?)", rows)
        has = Counter(number for word in quoted for (number,) in index.execute(_HAS, (word,)))
        found = index.execute(_BEST, (" OR ".join(quoted + pairs),)).fetchall()
    best = sorted(found, key=lambda one: one[1] * has[one[0]])[:limit]
    return [Hit(sections[number], " ".join(excerpt.split())) for number, _, excerpt in best]


def _beginning(text: str) -> str:
    words = text.split()
    return " ".join(words[:_EXCERPT]) + (" ..." if len(words) > _EXCERPT else "")
