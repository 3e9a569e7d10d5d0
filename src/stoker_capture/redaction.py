"""Hides secrets of what is kept: by the names of headers, parameters and fields, and by the forms of usual keys. Pure.

A secret that stands in a sentence and has none of these forms is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stoker.domain.secret_names import SECRET_NAME_ENDS, is_secret_name

HIDDEN = "[redacted]"
_HEADERS = frozenset(("authorization", "proxy-authorization", "cookie", "set-cookie"))
_NAME = rf"[\w.\-]{{0,60}}?(?:{SECRET_NAME_ENDS}|authorization)"
_FIELD = re.compile(rf'(\\{{0,15}})"({_NAME})\1"\s{{0,8}}:\s{{0,8}}\1"', re.IGNORECASE)
_PARAMETER = re.compile(rf"([?&]{_NAME}=)[^&\s]*", re.IGNORECASE)
_USUAL = re.compile(
    r"\b(?:sk-|hf_|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{12,}"
    r"|(?<=\bBearer )[A-Za-z0-9._~+/=-]{8,}"
)


def shown_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The headers without secrets."""
    texts = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    return [(name, HIDDEN if name in _HEADERS or is_secret_name(name) else hidden(value)) for name, value in texts]


def shown_target(target: str) -> str:
    """A path with its query, without secrets."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", target)


def hidden(text: str) -> str:
    """The text of a body without secrets: JSON, or JSON within a string of JSON, events, or anything else."""
    pieces: list[str] = []
    at = 0
    while (field := _FIELD.search(text, at)) is not None:
        pieces += [text[at : field.end()], HIDDEN]
        at = _end_of_string(text, field.end(), len(field[1]))
    return _USUAL.sub(HIDDEN, "".join([*pieces, text[at:]]))


def _end_of_string(text: str, at: int, depth: int) -> int:
    """Where the quote is that ends a string, or the backslashes before it. `depth`: how many of them belong to a quote
    of this string; more of them are a quote within it.
    """
    while (quote := text.find('"', at)) >= 0:
        slashes = 0
        while quote - slashes > at and text[quote - slashes - 1] == "\\":
            slashes += 1
        if slashes <= depth:
            return quote - slashes
        if depth == 0 and slashes % 2 == 0:
            return quote
        at = quote + 1
    return len(text)
