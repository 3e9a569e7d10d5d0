"""How much structure a request body may hold, counted before anything is decoded.

A body of a given size may cost a thousand times more than another: what costs is not the bytes but the objects that are
made of them. So a large body is counted first, in windows that skip over strings, and refused as soon as there is too
much. Other threads run between two windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from stoker.domain.access import Bounds
from stoker.domain.errors import ClientError

WINDOW = 64 * 1024
"""Bytes that are looked at in one go: a millisecond or two at worst."""
LIGHT = 8 * 1024
"""Bytes of a body that is never worth a thread."""
HEAVY = 256 * 1024
"""Bytes of a body that always is."""
MANY = 500
"""Objects in a body, in strings or not, from which it is worth one whatever its size."""
SMALLEST_ENTRY = 3
"""Bytes of JSON that an entry takes at least, with its comma; numbers do not count."""
LISTS = ("messages", "input", "prompt", "documents", "system", "stop", "stop_sequences", "images")
TOOLS = ("tools", "functions")
"""Fields of the top level that may be lists whose length is bounded."""
SHORT = 4096
"""Bytes of a body below which counting is the fastest way."""
_BRACKETS = b"{}[]"
_NOT_KEPT = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_elements = msgspec.json.Decoder(list[msgspec.Raw])


class Structure(NamedTuple):
    """`brackets`: those outside strings, in their order; `values`: members and elements, at any depth."""

    values: int
    brackets: bytes


def is_heavy(body: bytes) -> bool:
    """Whether reading the body takes long enough (some milliseconds) that it is better done by another thread."""
    size = len(body)
    return size > LIGHT and (size >= HEAVY or has_more(body, MANY, b"{"))


def structure(body: bytes, most: int) -> Structure:
    """What is outside strings. Raises ClientError 413 `too_many_values` as soon as there are more than `most` values.

    Linear, whatever the bytes are; of what is no JSON the result means nothing.
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

    A list of texts is split at once; in other lists it is cheaper to look for brackets and quotation marks first.
    """
    if len(raw) < SMALLEST_ENTRY * most or bytes(memoryview(raw)[:1]) != b"[":
        return 0
    first = bytes(memoryview(raw)[1:64]).lstrip()[:1]
    if first and first in b"{-0123456789":
        text = bytes(raw)
        if not has_more(text, most, b"{", b"[") and not has_more(text, 2 * most, b'"'):
            return 0
    return len(_elements.decode(raw))


def has_more(body: bytes, most: int, byte: bytes, other: bytes = b"") -> bool:
    """Whether `byte` and `other` occur more than `most` times in all, in strings or not. In a large body this is far
    cheaper than counting if they are rare, or if there are many more.
    """
    if len(body) < SHORT:
        return body.count(byte) + (body.count(other) if other else 0) > most
    for wanted in (byte, other) if other else (byte,):
        at = body.find(wanted)
        while at >= 0:
            most -= 1
            if most < 0:
                return True
            at = body.find(wanted, at + 1)
    return False


def _outside(body: bytes) -> Iterator[bytes]:
    in_string, kept = False, b""
    for at in range(0, len(body), WINDOW):
        window = kept + body[at : at + WINDOW]
        kept = b""
        if b"\\" in window:
            window = window.replace(b"\\\\", b"")
            if window.endswith(b"\\"):  # what it escapes comes with the next one
                window, kept = window[:-1], b"\\"
            window = window.replace(b'\\"', b"")
        pieces = window.split(b'"')
        yield b" ".join(pieces[in_string::2])
        in_string ^= len(pieces) % 2 == 0
