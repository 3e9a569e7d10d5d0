"""Where an answer names a page that a server tool brought: only what stands in the text is cited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stoker.domain.server_tools import WebPage

MOST = 50
"""Citations of one text."""
_IN_ADDRESS = frozenset("-._~:/?#[]@!$&'()*+,;=%")


def citations(text: str, pages: Iterable[WebPage], before: int = 0) -> list[dict[str, Any]]:
    """Start, end, URL and title of each place in which a page's whole address stands in the text, in order. Offsets are
    in characters, and count from `before`. Linear in the text for each page.
    """
    found: list[dict[str, Any]] = []
    for url, page in {page.url: page for page in pages}.items():
        at = text.find(url)
        while at >= 0 and len(found) < MOST:
            end = at + len(url)
            if not _goes_on(text, end):
                span = {"start_index": before + at, "end_index": before + end}
                found.append({**span, "url": url, "title": page.title or url})
            at = text.find(url, end)
    return sorted(found, key=lambda one: int(one["start_index"]))


def _goes_on(text: str, end: int) -> bool:
    """Whether the address in the text is a longer one than ends here. A mark before a blank or the end is punctuation,
    as is a bracket that closes.
    """
    rest = text[end : end + 2]
    if not rest or rest[0] in ")]>":
        return False
    if rest[0].isalnum():
        return True
    return rest[0] in _IN_ADDRESS and len(rest) > 1 and (rest[1].isalnum() or rest[1] in "/%")
