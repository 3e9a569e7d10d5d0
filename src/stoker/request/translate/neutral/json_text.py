"""Decoding what clients and engines wrote, with errors that say where."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from stoker.domain.errors import ClientError
from stoker.request.codec.tolerant_json import NOT_JSON, read

T = TypeVar("T")
Raw = msgspec.Raw
encode = msgspec.json.encode
_syntax = msgspec.json.Decoder(Raw)
_fields = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)
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
    except NOT_JSON as error:
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


@cache
def _names(shape: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(shape))


def has_unknown_field(body: bytes, shape: type[msgspec.Struct]) -> bool:
    """Whether a request has a field that its shape, in which it was read, does not have."""
    fields = shaped(_fields, body, "")
    return not _names(shape).issuperset(fields)


def string(value: Any, where: str) -> str:
    """Raises ClientError 400 `bad_field` for anything else."""
    if not isinstance(value, str):
        raise ClientError(f"'{where}' must be a string", code="bad_field", param=where)
    return value


def text_in(raw: Raw, where: str) -> str:
    """The text in a string, as arguments should come; some clients send the object itself: its own text then."""
    text = bytes(raw)
    return shaped(_string, text, where) if text[:1] == b'"' else text.decode()


def text_of(value: Any) -> str:
    """A text; anything else is an empty one."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> dict[str, Any]:
    """An object; anything else is an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; anything else has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
