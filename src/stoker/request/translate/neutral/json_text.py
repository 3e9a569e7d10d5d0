"""Decoding what clients and engines wrote, with errors that say where."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from stoker.domain.errors import ClientError

T = TypeVar("T")
Raw = msgspec.Raw
encode = msgspec.json.encode
_decode = msgspec.json.decode
_syntax = msgspec.json.Decoder(Raw)
_AT = re.compile(r" - at `\$([^`]*)`$")
_SURROGATES = re.compile("[\ud800-\udfff]")


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
    """The JSON value, or None if it is none. Half surrogates, which some engines write, become U+FFFD."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        plain = bytes(text) if isinstance(text, Raw) else text
        return _whole_characters(json.loads(plain))
    except (ValueError, RecursionError):
        return None


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return value


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
