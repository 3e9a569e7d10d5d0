"""The links and anchors of a page in CommonMark: where they lead, and which lead nowhere.

Pure but for reading the pages.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n.*?^ {0,3}\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
INLINE = re.compile(r"\]\(\s*(?:<([^>\n]*)>|([^)\s]*))(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*<?([^\s>]+)>?", re.MULTILINE)
HTML = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=[\"']([^\"' ]+)")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
IDENTIFIER = re.compile(r"<[a-z]+\b[^>]*?\b(?:id|name)=[\"']([^\"']+)")
LINK_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


class Link(NamedTuple):
    """One link of a page: its line (from 1), the path as written (empty: this page), and the anchor."""

    line: int
    path: str
    anchor: str


def links(text: str) -> list[Link]:
    """The links of a page that lead to a file or an anchor of this repository, in their order."""
    plain = without_code(text)
    found = [(m.start(), m[1] or m[2] or "") for m in INLINE.finditer(plain)]
    found += [(m.start(), m[1]) for pattern in (DEFINITION, HTML) for m in pattern.finditer(plain)]
    return [
        Link(plain.count("\n", 0, start) + 1, unquote(target.partition("#")[0]), unquote(target.partition("#")[2]))
        for start, target in sorted(found)
        if target and not re.match(r"[a-z][a-z0-9+.-]*:|//", target)
    ]


def anchors(text: str) -> set[str]:
    """The anchors of a page as GitHub spells them: of its headings, the second of a name with -1, and of its HTML."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", LINK_TEXT.sub(r"\1", heading).lower()).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found | set(IDENTIFIER.findall(without_code(text)))


def problems(page: Path, root: Path) -> list[str]:
    """`PAGE:LINE: what` for each link of the page that leads nowhere, or out of the repository."""
    found = []
    for link in links(page.read_text(encoding="utf-8")):
        target = (page.parent / link.path).resolve() if link.path else page
        if not target.exists():
            what = f"link to {link.path}, which is not there"
        elif not target.is_relative_to(root.resolve()):
            what = f"link to {link.path}, which is outside the repository"
        elif link.anchor and target.suffix == ".md" and link.anchor not in _anchors_of(target):
            what = f"link to {link.path}#{link.anchor}, a heading that is not there"
        else:
            continue
        found.append(f"{page.relative_to(root)}:{link.line}: {what}")
    return found


def without_code(text: str) -> str:
    """The text with blanks where code was: every other character stays where it is."""
    for pattern in (FENCE, SPAN):
        text = pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    return text


@cache
def _anchors_of(page: Path) -> set[str]:
    return anchors(page.read_text(encoding="utf-8"))
