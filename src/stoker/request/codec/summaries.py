"""The requests that a summary of earlier turns mentions. Pure, linear, and never raises."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

MOST_SUMMARY = 65_536
"""Characters of a summary that are read."""
MOST_FOUND = 32
_HEADING = re.compile(
    r"^[ \t#*\d.)>_-]{0,12}<?(?:all user messages|primary request|overall[ _]goal|original (?:request|task)|user'?s? "
    r"(?:request|goal|task|messages)|main (?:request|goal|task)|current task|task|goal|objective)\b"
    r"(?P<same>[^\n]{0,2000})",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT = re.compile(
    r"^(?:[ \t]{0,3}\d{1,2}\. |#{1,6} |[ \t]{0,3}\*\*[^*\n]{1,80}\*\*:?[ \t]*$|[ \t]*</?\w+>)", re.MULTILINE
)
"""How the next section begins."""
_TOLD = re.compile(
    r"\b(?:the )?user(?:'s)? (?:has |had |first |then |also |originally |initially )?"
    r"(?:asked|asks|wants|wanted|requested|requests|needs|needed|instructed|told|request (?:is|was))"
    r"(?: me| us| you| for| that| the assistant)?(?: to)? (?P<what>[^\n]{4,2000})",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^[ \t>*\d.)\"'`“-]{1,12}")
_MOST_SECTION = 8_192


def requests_in(summaries: Iterable[str]) -> tuple[str, ...]:
    """The requests, newest first if the summary says which is newest; empty if it mentions none."""
    found: dict[str, None] = {}
    for summary in summaries:
        text = summary[:MOST_SUMMARY]
        for told in islice(_TOLD.finditer(text), MOST_FOUND):
            _add(found, told["what"])
        for heading in islice(_HEADING.finditer(text), MOST_FOUND):
            _add(found, heading["same"].partition(":")[2] or heading["same"].partition(">")[2])
            rest = text[heading.end() : heading.end() + _MOST_SECTION]
            after = _NEXT.search(rest)
            for line in rest[: after.start() if after else None].split("\n")[:MOST_FOUND]:
                _add(found, line)
    return tuple(reversed(found))


def _add(found: dict[str, None], line: str) -> None:
    text = _LEAD.sub("", line).strip().rstrip("\"'`”*")
    told = _TOLD.match(text)
    text = told["what"] if told else text
    if len(text) >= 4 and len(found) < MOST_FOUND:
        found[text[:1].upper() + text[1:]] = None
