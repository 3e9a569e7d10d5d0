"""How much structure a request body may hold, counted before anything is decoded.

Two bodies of the same size may differ in cost by a factor of a thousand: not the bytes are expensive but the objects
that are made of them. So the values of a large body are counted first, window by window, without its strings. The body
is refused as soon as it has too many. Other threads run between two windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from stoker.domain.access import Bounds
from stoker.domain.errors import ClientError

WINDOW = 64 * 1024
"""Bytes that are searched at once: two milliseconds at worst."""
LIGHT: Final = 8 * 1024
"""A body of at most so many bytes is never given to a thread."""
HEAVY: Final = 256 * 1024
"""A body of at least so many bytes is always given to a thread."""
MANY: Final = 500
"""A body above LIGHT with more objects than this (`{`, in strings or not) is given to a thread."""
SMALLEST_ENTRY: Final = 3
"""Bytes of JSON that an entry takes at least, with its comma; numbers do not count."""
LISTS: Final = ("messages", "input", "prompt", "documents", "system", "stop", "stop_sequences", "images")
TOOLS: Final = ("tools", "functions")
"""Top-level fields whose length is limited if they are lists."""
SHORT: Final = 4096
"""Bytes of a body below which counting is faster than to search step by step."""
_FEW: Final = 12
_BRACKETS: Final = b"{}[]"
_NOT_KEPT: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_elements: Final = msgspec.json.Decoder(list[msgspec.Raw])


class Structure(NamedTuple):
    """`brackets`: brackets outside strings, in order; `values`: number of members and elements at any depth."""

    values: int
    brackets: bytes


def is_heavy(body: bytes) -> bool:
    """Whether reading the body takes long enough (some milliseconds) that it is better done by another thread."""
    size = len(body)
    return size > LIGHT and (size >= HEAVY or has_more(body, MANY, b"{"))


def structure(body: bytes, most: int) -> Structure:
    """Counts what is outside strings. Raises ClientError 413 `too_many_values` at more than `most` values.

    Takes linear time for any bytes; for bytes that are not JSON the result means nothing.
    """
    values, brackets = 1, bytearray()
    for outside in _outside(body):
        found = outside.translate(None, _NOT_KEPT)
        values += outside.count(b",") + found.count(b"{") + found.count(b"[")
        brackets += found
        if values > most:
            text = f"the request body has more than {most} values (front_door.max_values)"
            raise ClientError(text, code="too_many_values", status=413)
    return Structure(values, bytes(brackets))


def check_lists(lists: Iterable[tuple[str, msgspec.Raw]], bounds: Bounds) -> None:
    """Raises ClientError 413 for a list that is too long. `lists`: fields of LISTS and TOOLS and their JSON.

    1. `too_many_messages`: messages, input items, prompts, documents; numbers in a list are tokens, and do not count
    2. `too_many_tools`
    """
    for name, raw in lists:
        most = bounds.max_tools if name in TOOLS else bounds.max_messages
        count = _length(raw, most)
        if count > most:
            key, code = ("max_tools", "too_many_tools") if name in TOOLS else ("max_messages", "too_many_messages")
            text = f"'{name}' has {count} entries; the limit is {most} (front_door.{key})"
            raise ClientError(text, code=code, status=413, param=name)


def _length(raw: msgspec.Raw, most: int) -> int:
    """Entries of a list; 0 if it is not a list or cannot have more than `most` entries other than numbers and literals.

    A list of strings or objects is decoded at once. Numbers may be thousands of tokens: there it is cheaper to count
    brackets and quotation marks first.
    """
    if len(raw) < SMALLEST_ENTRY * most or bytes(memoryview(raw)[:1]) != b"[":
        return 0
    first = bytes(memoryview(raw)[1:64]).lstrip()[:1]
    if first and first in b"-0123456789":
        text = bytes(raw)
        if not has_more(text, most, b"{", b"[") and not has_more(text, 2 * most, b'"'):
            return 0
    return len(_elements.decode(raw))


def has_more(body: bytes, most: int, byte: bytes, other: bytes = b"") -> bool:
    """Whether `byte` and `other` occur more than `most` times in all, in strings or not. In a large body this is far
    cheaper than counting if they are rare, or if there are many more.
    """
    if len(body) < SHORT:
        return _count(body, byte) + (_count(body, other) if other else 0) > most
    for wanted in (byte, other) if other else (byte,):
        at = body.find(wanted)
        while at >= 0:
            most -= 1
            if most < 0:
                return True
            at = body.find(wanted, at + 1)
    return False


def _count(body: bytes, byte: bytes) -> int:
    """How often `byte` occurs. A few are found faster than they are counted."""
    found = 0
    at = body.find(byte)
    while at >= 0:
        found += 1
        if found > _FEW:
            return body.count(byte)
        at = body.find(byte, at + 1)
    return found


def _outside(body: bytes) -> Iterator[bytes]:
    in_string, kept = False, b""
    for at in range(0, len(body), WINDOW):
        window = kept + body[at : at + WINDOW]
        kept = b""
        if b"\\" in window:
            window = window.replace(b"\\\\", b"")
            if window.endswith(b"\\"):  # the escaped byte comes with the next window
                window, kept = window[:-1], b"\\"
            window = window.replace(b'\\"', b"")
        pieces = window.split(b'"')
        yield b" ".join(pieces[in_string::2])
        in_string ^= len(pieces) % 2 == 0
