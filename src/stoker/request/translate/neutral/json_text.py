"""Decoding what clients and engines wrote, with errors that say where."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from stoker.domain.errors import ClientError
from stoker.request.codec.tolerant_json import read

T = TypeVar("T")
Raw = msgspec.Raw
encode = msgspec.json.encode
_syntax = msgspec.json.Decoder(Raw)
_AT = re.compile(r" - at `\$([^`]*)`$")


def shaped(decoder: msgspec.json.Decoder[T], text: bytes | Raw, where: str) -> T:
    """The text in its shape. Raises ClientError 400 `bad_field` that names the place below `where`."""
    try:
        if isinstance(text, bytes) and not text.isascii():
            text.decode()  # what the decoder only skips has to be UTF-8 too: arguments, schemas
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        found = str(error)
        place = _AT.search(found)
        below = place[1] if place is not None else ""
        what = found[: place.start()] if place is not None else found
        path = (where + below).lstrip(".")
        text_ = f"{_named(path)} cannot be read: {what[:200]}"
        raise ClientError(text_, code="bad_field", param=path or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text_ = f"{_named(where)} is not valid JSON: {str(error)[:160]}"
        raise ClientError(text_, code="bad_json", param=where or None) from None


def _named(where: str) -> str:
    return f"'{where}'" if where else "the request"


def loose(text: bytes | str | Raw) -> Any:
    """The JSON value, or None if it is none. What is no strict JSON is mended: see `codec.tolerant_json`."""
    return read(text)


def is_json(text: str) -> bool:
    """Whether a document may hold this text as it stands: what `loose` reads need not be JSON (`NaN`)."""
    try:
        _syntax.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def is_there(value: Raw) -> bool:
    """Whether an optional field was given, and not as null."""
    return bytes(value) not in (b"", b"null")
