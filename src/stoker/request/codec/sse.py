"""Server-sent events: splitting a stream into frames, and reading their data."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from stoker.request.codec.tolerant_json import NOT_JSON

MAX_FRAME = 16 * 2**20
"""Bytes of an incomplete frame that are held; a larger frame is passed on unread."""
_decode: Final = msgspec.json.Decoder().decode
_CARRIAGE_RETURN: Final = 0x0D
_BLANK: Final = re.compile(rb"\n\r?\n")
"""The end of a frame, whether its lines end with LF or CRLF."""


class FrameSplitter:
    """Extracts the data of SSE frames from bytes that are cut anywhere. Takes linear time for any input."""

    __slots__ = ("_partial",)

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each frame that `data` completes; frames without data (comments) are left out."""
        partial = self._partial
        if partial:
            seam = bytes(partial[-2:])
            cut = last_end(seam + data) - len(seam)
            if cut <= 0:
                if len(partial) + len(data) <= MAX_FRAME:
                    partial += data
                else:
                    partial.clear()  # far too large for a frame: nobody could read it
                return []
            whole = bytes(partial) + data[:cut]
            partial.clear()
        else:
            cut = last_end(data)
            whole = data[:cut]
        if cut < len(data):
            partial += data[cut:]
        return [found for frame in split(whole) if (found := data_of(frame))]

    def rest(self) -> bytes:
        """The data of a last frame whose blank line did not come; empty if there is none."""
        rest = bytes(self._partial)
        self._partial.clear()
        return data_of(rest)


def data_of(frame: bytes) -> bytes:
    """The contents of a frame's data lines, joined."""
    if frame.startswith(b"data: ") and frame.find(b"\n") >= len(frame) - 2:
        return frame[6:].strip()
    lines = [line[5:].strip() for line in frame.splitlines() if line.startswith(b"data:")]
    return b"\n".join(lines)


def last_end(data: bytes) -> int:
    """Offset of the end of the last whole frame; 0 if there is none."""
    lf, crlf = data.rfind(b"\n\n"), data.rfind(b"\n\r\n")
    return max(lf + 2 if lf >= 0 else 0, crlf + 3 if crlf >= 0 else 0)


def split(data: bytes) -> list[bytes]:
    """Splits whole SSE frames, each with its blank line; joined they are `data` again."""
    if _CARRIAGE_RETURN not in data:
        parts = data.split(b"\n\n")
        last = parts.pop()
        whole = [part + b"\n\n" for part in parts]
        return [*whole, last] if last else whole
    ends = [match.end() for match in _BLANK.finditer(data)]
    frames = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    rest = data[ends[-1] :] if ends else data
    return [*frames, rest] if rest else frames


def parse(frame: bytes) -> dict[str, Any] | None:
    """The JSON object in a frame's data lines; None for comments, [DONE] and anything but an object."""
    data = data_of(frame)
    if not data or data == b"[DONE]":
        return None
    return _object(data)


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        payload = _decode(data)
    except NOT_JSON:
        return None
    return payload if isinstance(payload, dict) else None
