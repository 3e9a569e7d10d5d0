"""One HTTP/1.1 answer, read to its end or to a bound."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools

MAX_HEAD = 64 * 1024
CHUNK = 64 * 1024
_ENDS = (b"content-length", b"transfer-encoding")


class ResponseReader:
    """Reads one response. `body` holds what came, never more than the bound."""

    def __init__(self) -> None:
        self.status = 0
        """0 until the head was read."""
        self.location = ""
        self.headers: dict[bytes, bytes] = {}
        """By name in lower case; of a repeated one, the last."""
        self.body = bytearray()
        self.is_cut = False
        """The body is longer than the bound; the rest was not read."""
        self.can_follow = False
        """Whether another question may follow on the same connection."""
        self._parser: Any = httptools.HttpResponseParser(self)
        self._head_size = 0
        self._announces_end = False
        self._has_ended = False

    async def read(self, reader: asyncio.StreamReader, limit: int, *, only_success: bool = False) -> None:
        """Read up to `limit` bytes of the body, whatever length was announced. Raises ValueError with the reason if the
        answer is not HTTP or ends too early; OSError if the connection breaks.

        `only_success`: the body of anything but a 200 is not read. Call it once.
        """
        try:
            while not self._has_ended and not self.is_cut and not (only_success and self.status not in (0, 200)):
                data = await reader.read(CHUNK)
                if not data:
                    self._on_eof()
                    return
                self._feed(data)
                if len(self.body) > limit:
                    self.is_cut = True
                    del self.body[limit:]
        finally:
            self._parser = None  # leaves no reference cycle: serves are asked every second, for as long as Stoker runs

    def _feed(self, data: bytes) -> None:
        self._head_size += len(data) if not self.status else 0
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._has_ended:  # whatever follows the answer is ignored
                raise ValueError("what came is not HTTP") from None
        if self._head_size > MAX_HEAD and not self.status:
            raise ValueError("the head of the answer is too large")

    def _on_eof(self) -> None:
        """Without a length or chunks, the end of the connection is the end of the answer."""
        if not self.status or self._announces_end:
            raise ValueError("the connection ended before the answer did")

    # -- httptools -----------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:  # a trailer, or a second answer
            return
        name = name.lower()
        self.headers[name] = value
        if name == b"location":
            self.location = value.decode("utf-8", "replace")
        self._announces_end = self._announces_end or name in _ENDS

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self.status and status >= 200:
            self.status = status

    def on_body(self, body: bytes) -> None:
        if not self._has_ended:
            self.body += body

    def on_message_complete(self) -> None:
        if self.status:
            self._has_ended = True
            self.can_follow = self._announces_end and self._parser.should_keep_alive()
        else:  # 1xx: the real answer follows
            self.location, self._announces_end = "", False
            self.headers.clear()
