"""Hides secrets of what is kept: by the names of headers, parameters and fields, and by the forms of usual keys. Pure.

A secret that stands in a sentence and has none of these forms is not recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from stoker.domain.secret_names import SECRET_NAME_ENDS
from stoker.request.codec.upstream_messages import next_match, replaced

HIDDEN = "[redacted]"
_ENDS = f"(?:{SECRET_NAME_ENDS}|authorization|cookie)"
_NAME = rf"[\w.\-]{{0,60}}?{_ENDS}"
_HEADER = re.compile(f"{_ENDS}$", re.IGNORECASE)
_COLON, _COMMA = r"\s{0,8}:\s{0,8}", r"\s{0,8},\s{0,8}"
_FIELD = re.compile(
    rf'"(?:(?:name|key|header)(\\{{0,15}})"{_COLON}\1"{_NAME}\1"{_COMMA}\1"value\1"{_COLON}(?:\1"|(?=[\[\d-]))'
    rf'|{_NAME}(\\{{0,15}})"{_COLON}(?:\2"|(?=[\[\d-])))',
    re.IGNORECASE,
)
"""A field with a secret, as far as the quote that begins its text, or before its number or list. The backslashes are
those of JSON within a string of JSON."""
_NUMBER = re.compile(r"-?\d[\d.eE+-]*")
_BETWEEN = re.compile(r"[\s,]*")
_PARAMETER = re.compile(rf'((?:\?|&|\\u0026){_NAME}=)[^&\s"\\]*', re.IGNORECASE)
_USUAL = re.compile(
    r"\b(?:sk-|hf_|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AKIA)[A-Za-z0-9_-]{12,}"
    r"|(?<=\bBearer )[A-Za-z0-9._~+/=-]{8,}"
)
_LONGEST = 512
"""Characters that decide whether one of these patterns matches."""


def shown_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The headers without secrets."""
    texts = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]
    return [(name, HIDDEN if _HEADER.search(name) else hidden(value)) for name, value in texts]


def hidden(text: str) -> str:
    """The text of a body without secrets: JSON, or JSON within a string of JSON, events, or anything else; or a path
    with its query, or the value of a header.
    """
    pieces: list[str] = []
    at = 0
    while (field := next_match(_FIELD, text, at, _LONGEST)) is not None:
        quote = f'{field[1] if field[1] is not None else field[2]}"'
        begin = field.end()
        if field[0].endswith('"'):
            pieces += [text[at:begin], HIDDEN]
            at = _end_of_string(text, begin, len(quote) - 1)
            continue
        if text[begin] == "[":
            begin = _after(_BETWEEN, text, begin + 1)
            end = _end_of_items(text, begin, quote)
        else:
            end = _after(_NUMBER, text, begin)
        pieces += [text[at:begin], f"{quote}{HIDDEN}{quote}" if end > begin else ""]
        at = end
    text = "".join([*pieces, text[at:]])
    text = replaced(_PARAMETER, rf"\1{HIDDEN}", text, _LONGEST)
    return replaced(_USUAL, HIDDEN, text, _LONGEST)


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


def _end_of_items(text: str, at: int, quote: str) -> int:
    """Where the text and numbers of a list end, whose first item stands here."""
    end = at
    while True:
        if text.startswith(quote, at):
            end = min(_end_of_string(text, at + len(quote), len(quote) - 1) + len(quote), len(text))
        elif (number := _after(_NUMBER, text, at)) > at:
            end = number
        else:
            return end
        at = _after(_BETWEEN, text, end)


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where that ends which stands here; `at`, if it does not."""
    match = pattern.match(text, at)
    return at if match is None else match.end()
