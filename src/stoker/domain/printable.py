"""Makes foreign text safe to show: a terminal or a log must not obey control characters in a name or an error."""

from __future__ import annotations

import re

_TERMINAL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of text
    "\u2028\u2029"  # line breaks that are not newlines
    "\ud800-\udfff]"  # surrogates: halves of a character, which cannot be encoded
)
_LINE = re.compile(f"[\t\n]|{_TERMINAL.pattern}")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


def printable(text: str) -> str:
    """`text` with every character that a terminal would obey written as `\\u001b`. Newlines and tabs stay.

    The escapes are those of JSON, so a JSON document keeps its meaning.
    """
    return _TERMINAL.sub(_escaped, text)


def one_line(text: str) -> str:
    """As `printable`, with newlines and tabs escaped too: a name must not look like the next line."""
    return _LINE.sub(_escaped, text)


def without_colours(text: str) -> str:
    """`text` without the escape sequences that set colours: engines write them into their logs."""
    return _COLOUR.sub("", text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
