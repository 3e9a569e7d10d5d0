"""How a reply's bytes are wrapped."""

from __future__ import annotations

import zlib
from http import HTTPStatus

_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_GZIP = 16 + zlib.MAX_WBITS


class Wrapper:
    """Wraps the units of one reply's body: gzip if asked, then HTTP chunks if `chunked`."""

    def __init__(self, *, chunked: bool, gzip: bool, chunk_bytes: int) -> None:
        self._chunked = chunked
        self._chunk_bytes = chunk_bytes
        self._zip = zlib.compressobj(wbits=_GZIP) if gzip else None

    def wrap(self, unit: bytes) -> bytes:
        if self._zip is not None:
            unit = self._zip.compress(unit) + self._zip.flush(zlib.Z_SYNC_FLUSH)
        return self._frame(unit)

    def end(self) -> bytes:
        last = self._frame(self._zip.flush(zlib.Z_FINISH)) if self._zip is not None else b""
        return last + b"0\r\n\r\n" if self._chunked else last

    def _frame(self, data: bytes) -> bytes:
        if not self._chunked or not data:  # an empty chunk would be the end
            return data
        if not self._chunk_bytes:
            return b"%x\r\n%b\r\n" % (len(data), data)
        step = self._chunk_bytes
        parts = (data[at : at + step] for at in range(0, len(data), step))
        return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


def reply_head(status: int, headers: list[tuple[str, str]], length: int | None, *, chunked: bool, close: bool) -> bytes:
    """Status line and headers. Neither `length` nor `chunked`: the end of the connection is the end of the body."""
    lines = [b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, b"Unknown"))]
    lines += [f"{name}: {value}\r\n".encode("latin-1") for name, value in headers]
    if chunked:
        lines.append(b"transfer-encoding: chunked\r\n")
    elif length is not None:
        lines.append(b"content-length: %d\r\n" % length)
    if close or (not chunked and length is None):
        lines.append(b"connection: close\r\n")
    return b"".join(lines) + b"\r\n"


def split(data: bytes, sizes: tuple[int, ...]) -> list[bytes]:
    """`data` in pieces of these sizes, which are used in turn."""
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    return pieces
