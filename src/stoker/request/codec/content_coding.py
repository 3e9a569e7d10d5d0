"""Content-Encoding of replies: which codings Stoker asks serves for, and reads. Pure."""

from __future__ import annotations

import zlib
from typing import Final

from stoker.domain.errors import UpstreamError

READ: Final = frozenset((b"gzip", b"x-gzip", b"deflate"))
PLAIN: Final = frozenset((b"", b"identity"))
MAX_PIECE: Final = 16 * 2**20
"""Bytes that one read of a compressed reply may become."""
_USUAL: Final = frozenset((b"gzip, deflate", b"gzip,deflate", b"gzip", b"deflate", b"identity"))


def readable_codings(accepted: bytes) -> bytes:
    """Of a client's Accept-Encoding, what Stoker reads: what a serve is asked for."""
    if accepted in _USUAL:
        return accepted
    kept = [part.strip() for part in accepted.split(b",") if _name(part) in READ or _name(part) == b"identity"]
    return b", ".join(kept) or b"identity"


def accepts(accepted: bytes, coding: bytes) -> bool:
    """Whether an Accept-Encoding names this coding, and does not exclude it."""
    for part in accepted.split(b","):
        if _name(part) == coding:
            weight = part.partition(b";")[2].replace(b" ", b"").lower()
            return not weight.startswith(b"q=0") or weight.strip(b"q=0.") != b""
    return False


def _name(part: bytes) -> bytes:
    return part.partition(b";")[0].strip().lower()


class ContentDecoder:
    """Decodes one reply. A coding that is not read fails with the first byte."""

    __slots__ = ("_coding", "_inflate", "_start", "has_failed")

    def __init__(self, coding: bytes) -> None:
        """`coding`: the Content-Encoding, in lower case."""
        self._coding = coding
        self.has_failed = False
        """Whether `feed` raised."""
        self._inflate = zlib.decompressobj(31) if coding in (b"gzip", b"x-gzip") else None
        self._start = b""
        """The beginning of a `deflate`, until it tells whether it has the header that RFC 9110 demands."""

    def feed(self, data: bytes) -> bytes:
        """What can be read by now. Raises UpstreamError `upstream_unusable`."""
        self.has_failed = True
        out = self._decode(data)
        self.has_failed = False
        return out

    def _decode(self, data: bytes) -> bytes:
        if self._coding not in READ:
            shown = self._coding[:40].decode("latin-1")
            raise _unusable(f"encoded its reply as {shown!r}, which Stoker did not ask for and cannot read")
        if self._inflate is None:
            data = self._start = self._start + data
            if len(data) < 2:
                return b""
            has_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = zlib.decompressobj(15 if has_header else -15)
            self._start = b""
        out = bytearray()
        try:
            while data:
                if self._inflate.eof:  # gzip may have several members, and padding behind them
                    data = data.lstrip(b"\0")
                    if not data or self._coding == b"deflate":
                        break
                    self._inflate = zlib.decompressobj(31)
                out += self._inflate.decompress(data, MAX_PIECE + 1 - len(out))
                if len(out) > MAX_PIECE or self._inflate.unconsumed_tail:
                    raise _unusable(f"compressed more than {MAX_PIECE >> 20} MiB into one piece of its reply")
                data = self._inflate.unused_data
        except zlib.error as error:
            raise _unusable(f"said that its reply is {self._coding.decode()}, but it cannot be decoded") from error
        return bytes(out)

    def finish(self) -> None:
        """The reply is over. Raises UpstreamError if its end is missing."""
        if self._start or (self._inflate is not None and not self._inflate.eof):
            raise UpstreamError("the serve's compressed reply ended before its end", code="upstream_broke")


def decoded(coding: bytes, body: bytes) -> bytes:
    """A whole body that was read. Raises as `ContentDecoder`."""
    if coding in PLAIN or not body:
        return body
    decoder = ContentDecoder(coding)
    plain = decoder.feed(body)
    decoder.finish()
    return plain


def _unusable(what: str) -> UpstreamError:
    return UpstreamError(f"the serve {what}", code="upstream_unusable")
