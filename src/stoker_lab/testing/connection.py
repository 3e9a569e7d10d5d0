"""One client's connection: HTTP in, one request after the other."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import httptools

from stoker_lab.testing.playback import Playback
from stoker_lab.testing.reply_plan import ReplyPlan
from stoker_lab.testing.script.framing import reply_head
from stoker_lab.testing.script.record import RecordedRequest, RequestLog
from stoker_lab.testing.script.script import Script

_NO_LINGER = struct.pack("ii", 1, 0)


class ConnectionOwner(Protocol):
    """What a connection needs of the server."""

    script: Script
    books: RequestLog
    lines: set[ServerConnection]

    def amend(self, changes: dict[str, Any]) -> None:
        """Changes fields of the script."""


class ServerConnection(asyncio.Protocol):
    """Requests that come during a reply wait for its end. Reading never pauses, so that a client that leaves is noticed
    at once."""

    def __init__(self, owner: ConnectionOwner, answer: Callable[[ServerConnection, RecordedRequest], None]) -> None:
        self._owner = owner
        self._answer = answer
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[RecordedRequest, bool]] = deque()
        self._playback: Playback | None = None
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._method = ""
        self._keep_alive = True
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made
        self.is_paused = False

    # -- asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._owner.lines.add(self)
        self._owner.books.counters.connections += 1

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self._playback is not None:  # a 400 cannot be written into a reply
                self.abort()
                return
            why = str(error).replace('"', "'").encode()
            self.reply(400, b'{"error":{"message":"%b","code":400}}' % why, close=True)

    def eof_received(self) -> None:
        self._left()  # a client that half-closed its connection gets nothing more from this server

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.lines.discard(self)
        self._owner.books.counters.connections -= 1
        self._left()
        self._set_paused(False)
        self._owner.books.changed()

    def pause_writing(self) -> None:
        self._set_paused(True)

    def resume_writing(self) -> None:
        self._set_paused(False)
        if self._playback is not None:
            self._playback.resume()

    # -- httptools -----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", [], []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if any(name == "expect" and value.lower() == "100-continue" for name, value in self._headers):
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        method, path = self._parser.get_method().decode(), self._url.decode("latin-1")
        request = RecordedRequest(method, path, tuple(self._headers), b"".join(self._body))
        self._waiting.append((request, self._parser.should_keep_alive()))
        if self._playback is None:
            self._take_next()

    # -- replies -------------------------------------------------------------------------------------------------

    def reply(self, status: int, body: bytes, content_type: str = "application/json", *, close: bool = False) -> None:
        """Sends a plain reply at once; it is not counted."""
        close = close or not self._keep_alive or self._owner.script.close_each
        head = reply_head(status, [("content-type", content_type)], len(body), chunked=False, close=close)
        self._transport.write(head if self._method == "HEAD" else head + body)
        if close:
            self._transport.close()

    def play(self, plan: ReplyPlan, script: Script) -> None:
        """A counted reply; it ends in `reply_ended`, in `reset`, or when the client leaves."""
        self._owner.books.started()
        self._playback = Playback(self, plan, script)
        self._playback.start()

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def reply_ended(self, how: str, *, close: bool) -> None:
        self._playback = None
        self._owner.books.ended(how)
        if close or not self._keep_alive:
            self._transport.close()
        else:
            self._take_next()

    def reset(self) -> None:
        self._playback = None
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()
        self._owner.books.ended("broken")

    def abort(self) -> None:
        """The server closes the connection. A reply under way counts as broken."""
        if self._playback is not None:
            self._playback.stop()
            self._playback = None
            self._owner.books.ended("broken")
        self._transport.abort()

    def give_up(self) -> None:
        """Aborts the request under way, if there is one, and closes the connection."""
        if self._playback is not None:
            self.abort()

    def _set_paused(self, is_paused: bool) -> None:
        if is_paused != self.is_paused:
            self.is_paused = is_paused
            self._owner.books.counters.paused += 1 if is_paused else -1
            self._owner.books.changed()

    # -- ends ----------------------------------------------------------------------------------------------------

    def _take_next(self) -> None:
        while self._waiting and self._playback is None and not self._transport.is_closing():
            request, self._keep_alive = self._waiting.popleft()
            self._method = request.method
            self._answer(self, request)

    def _left(self) -> None:
        if self._playback is not None:
            self._playback.stop()
            self._playback = None
            self._owner.books.ended("disconnected")
