"""The line to one client.

uvicorn hosts the server (sockets, parsing, keep-alive, shutdown). Its ASGI `send` costs a coroutine and a dictionary
per event; a relay that already runs in a socket callback can write to the transport instead. `WireProtocol` puts a
`Wire` into each request's scope for that, and tells it at once when the client is gone or slow. What it relies on in
uvicorn is listed in `HOOKS` and held by a contract test; uvicorn is pinned to a minor version.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

HOOKS = {
    HttpToolsProtocol: (
        "connection_made", "connection_lost", "data_received", "on_headers_complete", "on_message_complete",
        "on_response_complete", "resume_writing",
    ),
    RequestResponseCycle: ("run_asgi", "send", "receive"),
}  # fmt: skip
_HEAD = 16384
"""Bytes of a read in which a head is looked through."""
_UPGRADE = re.compile(rb"(\r\n)upgrade:", re.IGNORECASE)


class WireProtocol(HttpToolsProtocol):
    """One client connection."""

    is_local = False
    """Came through the control socket (mode 0600): its peer is the user itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.unfinished: set[Wire] = set()
        """Requests whose reply is not complete; more than one if the client pipelines."""

    def data_received(self, data: bytes) -> None:
        if (self.cycle is None or not self.cycle.more_body) and b"pgrade:" in data[:_HEAD]:
            data = _without_upgrade(data)
        super().data_received(data)

    def connection_made(self, transport: Any) -> None:
        sock = transport.get_extra_info("socket")
        self.is_local = sock is not None and sock.family == getattr(socket, "AF_UNIX", None)
        super().connection_made(transport)

    def on_headers_complete(self) -> None:
        wire = Wire(self)
        self.scope["wire"] = wire  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        wire.cycle = self.cycle  # before the request's task can run: it starts with the loop's next turn
        self.unfinished.add(wire)

    def on_message_complete(self) -> None:
        """The body is here: read on, so that a client which leaves is noticed. uvicorn pauses reading behind a body of
        more than 64 KiB until the application asks for more, and nothing here does.
        """
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for wire in list(self.unfinished):
            wire.lose()

    def resume_writing(self) -> None:
        super().resume_writing()
        for wire in list(self.unfinished):
            if wire.on_resume is not None:
                wire.on_resume()


def _without_upgrade(data: bytes) -> bytes:
    """A head without its offer to speak another protocol, which a server may pass over (RFC 9110, 7.8).

    httptools takes what follows such a head for the other protocol, and the body would be lost. Java's client offers
    h2c with every request.
    """
    head, blank, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(rb"\1x-asked:", head) + blank + rest


class Wire:
    """Direct writing for one request. All methods return at once; writing to a lost client does nothing.

    `on_lost` is called once when the client is gone before the reply was finished; `on_resume` when a slow client
    takes bytes again after `is_paused` was true.
    """

    __slots__ = ("_protocol", "_raw", "cycle", "is_lost", "on_lost", "on_resume")

    def __init__(self, protocol: WireProtocol) -> None:
        self._protocol = protocol
        self.cycle: RequestResponseCycle = None  # type: ignore[assignment]  # set as soon as uvicorn has made it
        self.is_lost = False
        self.on_lost: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None
        self._raw = False

    @property
    def is_local(self) -> bool:
        return self._protocol.is_local

    @property
    def is_paused(self) -> bool:
        """Whether the client is slow: its buffer is above the high-water mark."""
        return self._protocol.flow.write_paused

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        """Write the head. `length` None: the body is chunked (for HTTP/1.0: ends with the connection)."""
        head = self._head(status, headers, length)
        if not self.is_lost:
            self.cycle.transport.write(head)

    def _head(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None) -> bytes:
        cycle = self.cycle
        cycle.response_started = True
        cycle.waiting_for_100_continue = False
        if length is None and cycle.scope["http_version"] == "1.0":
            cycle.keep_alive = False
        parts = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            parts += (name, b": ", value, b"\r\n")
        self._raw = length is not None or cycle.scope["http_version"] == "1.0"
        if length is not None:
            parts.append(b"content-length: %d\r\n" % length)
        elif not self._raw:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        """Write a piece of the body; empty pieces are skipped (an empty chunk would end the reply)."""
        if self.is_lost or not data:
            return
        if self._raw:
            self.cycle.transport.write(data)
        else:
            self.cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self, last: bytes = b"") -> None:
        """End the reply; the connection is kept if both sides want that."""
        cycle = self.cycle
        if not self.is_lost:
            if self._raw:
                if last:
                    cycle.transport.write(last)
            elif last:
                cycle.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
            else:
                cycle.transport.write(b"0\r\n\r\n")
        self._complete()

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """A whole reply at once."""
        head = self._head(status, headers, len(body))
        if not self.is_lost:
            self.cycle.transport.write(head if self.cycle.scope["method"] == "HEAD" else head + body)
        self._complete()

    def break_off(self) -> None:
        """Close without a proper end: the client must not take what it has for the whole reply."""
        self.cycle.keep_alive = False
        if not self.is_lost:
            self.cycle.transport.close()
        self._complete()

    def close_after(self) -> None:
        """This reply is the connection's last (an unread body would be taken for the next request)."""
        self.cycle.keep_alive = False

    def lose(self) -> None:
        """The client is gone."""
        if self.is_lost or self not in self._protocol.unfinished:
            return
        self.is_lost = True
        self.cycle.disconnected = True  # uvicorn marks only the connection's latest request
        self._protocol.unfinished.discard(self)
        if self.on_lost is not None:
            self.on_lost()

    def _complete(self) -> None:
        cycle = self.cycle
        self._protocol.unfinished.discard(self)
        self.on_lost = self.on_resume = None
        cycle.scope.pop("wire", None)  # type: ignore[typeddict-item]  # no circle is left behind for the collector
        if cycle.response_complete:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive and not self.is_lost:
            cycle.transport.close()
        cycle.on_response()
