"""JSON as engines write it. Many clients read no more than strict JSON, so that is what they get.

    NaN, Infinity, -Infinity   null; -Infinity as a logprob is -9999.0, as OpenAI writes it
    half a surrogate           U+FFFD; joined to the other half if that begins the same text of the next frame
    bytes that are not UTF-8   U+FFFD

Everything is tried as strict JSON first; only what is none is read again.
"""

from __future__ import annotations

import copy
import json
import math
import re
from typing import Any, Final

import msgspec

_decode: Final = msgspec.json.decode
NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that is no JSON, or not of the shape that is wanted."""
decode_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
"""The fields of a JSON object, each as it was written."""
LEAST_LOGPROB: Final = -9999.0
_LOGPROBS: Final = frozenset(("logprob", "logprobs", "token_logprobs", "top_logprobs"))
"""Fields that hold logprobs: a number, a list, or numbers by token."""
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_Path = tuple[str | int, ...]


def read(text: bytes | str | msgspec.Raw) -> Any:
    """The JSON value, or None if it is none."""
    try:
        return _decode(text)
    except NOT_JSON:
        return read_leniently(bytes(text) if isinstance(text, msgspec.Raw) else text)


def read_strictly(text: bytes) -> Any:
    """The value of strict JSON; None: it is none, or null."""
    try:
        return _decode(text)
    except NOT_JSON:
        return None


def read_leniently(text: bytes | str) -> Any:
    """The value of what is no strict JSON, or None."""
    return _read(text, joined)


def is_strict(text: bytes) -> bool:
    try:
        _decode(text)
    except NOT_JSON:
        return False
    return True


def strict(text: bytes) -> bytes | None:
    """What is no strict JSON, as strict JSON; None: it is not JSON at all."""
    found = read_leniently(text)
    return None if found is None else msgspec.json.encode(found)


def joined(text: str) -> str:
    """The text with whole characters only."""
    if _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _read(text: bytes | str, whole: Any) -> Any:
    try:
        value = json.loads(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)
        return _mended(value, whole, False)
    except (ValueError, RecursionError):
        return None


def _mended(value: Any, whole: Any, is_logprob: bool) -> Any:
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, float) and not math.isfinite(value):
        return LEAST_LOGPROB if is_logprob and value < 0 else None
    if isinstance(value, list):
        return [_mended(item, whole, is_logprob) for item in value]
    if isinstance(value, dict):
        return {whole(key): _mended(item, whole, is_logprob or key in _LOGPROBS) for key, item in value.items()}
    return value


class FrameReader:
    """Reads the JSON of a stream's frames, one after the other. A character that is split over the same text of two
    frames is put together.
    """

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held: tuple[_Path, str, Any] | None = None
        """Half a character at the end of a text: where it was, the half, and its frame with U+FFFD in place of the
        text.
        """

    def read(self, frame: bytes) -> list[Any]:
        """The values of the frame, in order; an engine's text may need two. Empty: it is no JSON, or all of it waits
        for the next frame.
        """
        try:
            value = _decode(frame)
        except NOT_JSON:
            return self._mend(frame)
        return [value] if self.held is None else [*self.rest(), value]

    def rest(self) -> list[Any]:
        """What waits for a next frame that does not come."""
        held, self.held = self.held, None
        return [] if held is None else [held[2]]

    def _mend(self, frame: bytes) -> list[Any]:
        value = _read(frame, str)
        if value is None:
            return []
        before: list[Any] = []
        if self.held is not None:
            path, half, alone = self.held
            self.held = None
            text = _at(value, path)
            if isinstance(text, str) and "\udc00" <= text[:1] <= "\udfff":
                value = _with(value, path, half + text)
            else:
                before.append(alone)
        path_of_half = _half_at_end(value)
        if path_of_half is not None:
            text = _at(value, path_of_half)
            alone = _mended(_with(copy.deepcopy(value), path_of_half, "\ufffd"), joined, False)
            self.held = path_of_half, text[-1], alone
            value = _with(value, path_of_half, text[:-1])
        return [*before, _mended(value, joined, False)]


def _half_at_end(value: Any) -> _Path | None:
    """Where a text ends with the first half of a character."""
    todo: list[tuple[_Path, Any]] = [((), value)]
    while todo:
        path, one = todo.pop()
        if isinstance(one, str) and "\ud800" <= one[-1:] <= "\udbff":
            return path
        if isinstance(one, dict):
            todo += [((*path, key), item) for key, item in one.items()]
        elif isinstance(one, list):
            todo += [((*path, at), item) for at, item in enumerate(one)]
    return None


def _at(value: Any, path: _Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


def _with(value: Any, path: _Path, text: str) -> Any:
    if not path:
        return text
    _at(value, path[:-1])[path[-1]] = text
    return value
