"""One HTTP request of a client, and writing its reply straight to the socket."""

from __future__ import annotations

import asyncio
import http
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any, Final, NamedTuple, Protocol

import httptools

from stoker.domain.dialect import ENDPOINTS
from stoker.domain.errors import StokerError
from stoker.request.accept.budget import SMALL, BodyBudget
from stoker.request.accept.idle_connections import MovableConnection
from stoker.request.accept.server_state import ServerState
from stoker.request.outbox import Outbox


def _status_line(status: int) -> bytes:
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode())


STATUS_LINES: Final = {status: _status_line(status) for status in range(100, 600)}


_USUAL_TARGETS: Final = {path.encode(): path for path in ENDPOINTS}
"""Need not be parsed."""
_LARGE_BODY: Final = 4 * 2**20
_BLOCK: Final = 2**20
"""Bytes. Large enough for `LARGE` of `app.allocator`."""
_SMALL_CHUNK: Final = 2048
_CHUNK_HEADS: Final = [b"%x\r\n" % size for size in range(_SMALL_CHUNK)]
"""Of chunks of this size. Most events are small, and formatting a number takes longer than all the rest of a write."""


class Forwarded(NamedTuple):
    """What a trusted proxy says about a request. Empty: it did not say."""

    address: str = ""
    """The client's."""
    scheme: str = ""
    host: bytes = b""
    path: str = ""
    """The path without the public prefix, if the proxy left that in."""


class ClientConnection(MovableConnection, Protocol):
    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    state: ServerState
    outbox: Outbox
    bodies: BodyBudget
    is_local: bool

    def stop_reading(self) -> None: ...

    def pause_body(self) -> None: ...

    def resume_body(self) -> None: ...

    def on_replied(self, wire: Wire) -> None: ...

    def begin_tunnel(self, receive: Callable[[bytes], None], end: Callable[[], None] | None) -> None: ...


class Wire:
    """One request, and its reply, which is written straight to the socket. All methods return at once; writing to a
    lost client does nothing.

    `on_lost` is called once if the client leaves before the reply is finished; `on_resume` when a slow client reads
    again after `is_paused` was true. Raises httptools.HttpParserError for an invalid request target.
    """

    __slots__ = (
        "_connection",
        "_forwarded_address",
        "_gathered",
        "_held",
        "_is_raw",
        "_next_block",
        "_transport",
        "arrival",
        "body_error",
        "has_repeated_headers",
        "headers",
        "is_answering",
        "is_finished",
        "is_local",
        "is_lost",
        "is_paused",
        "is_released",
        "is_started",
        "is_whole",
        "keeps_alive",
        "method",
        "offers_websocket",
        "on_lost",
        "on_pause",
        "on_resume",
        "path",
        "pieces",
        "query",
        "raw_headers",
        "raw_path",
        "received",
        "scheme",
        "version",
    )  # fmt: skip

    def __init__(
        self,
        connection: ClientConnection,
        method: str,
        url: bytes,
        given: list[tuple[bytes, bytes]],
        keeps_alive: bool,
    ) -> None:
        self.method = method
        self.version = "1.1"
        """Of HTTP."""
        self.raw_headers = given
        """The headers as they came, names in lower case."""
        self.headers = dict(given)
        self.has_repeated_headers = len(self.headers) != len(given)
        self.path = _USUAL_TARGETS.get(url, "")
        """As it was sent; `routes` decodes what may be decoded."""
        self.raw_path, self.query = url, b""
        if not self.path:
            self.raw_path, self.query = _target(url)
            self.path = self.raw_path.decode("ascii")
        self.pieces: list[bytes] = []
        self._gathered = 0
        self._next_block = _LARGE_BODY
        """With so many bytes of the body, the pieces so far become a block: see `join_pieces`."""
        self._held = 0
        """Bytes taken from the budget for all bodies; given back once, by `release`."""
        self.is_released = False
        self.is_answering = False
        """An `InlineTask` works on the reply, and calls `release` when it ends."""
        self.body_error: StokerError | None = None
        """Why the rest of the body is not read."""
        self.received = 0
        """Bytes of the body so far."""
        self.is_whole = False
        """The whole body has arrived."""
        self.arrival: asyncio.Future[None] | None = None
        self.is_started = False
        self.is_finished = False
        self.is_lost = False
        self.is_paused = False
        """The client is slow: its buffer is above the high-water mark. Its connection says so while this request runs;
        each event of a stream asks.
        """
        self.on_pause: Callable[[], None] | None = None
        """For who answers other requests through this one."""
        self.keeps_alive = keeps_alive
        self.offers_websocket = False
        """The client waits for a 101, and what follows the head is no request. Any other reply is the last one."""
        self.on_lost: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None
        self._is_raw = False
        self._connection = connection
        self._transport = connection.transport
        self.is_local = connection.is_local
        self.scheme = ""
        """`http` or `https`, where a trusted proxy says so."""
        self._forwarded_address = ""

    @property
    def connection(self) -> ClientConnection:
        """Over which it came."""
        return self._connection

    @property
    def address(self) -> str:
        """The client's IP address; empty: it came through the control socket."""
        if self._forwarded_address:
            return self._forwarded_address
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) and peer else ""

    def apply_forwarded(self, forwarded: Forwarded) -> None:
        """Take over what a trusted proxy says about the request. Its headers stay as they came in `raw_headers`."""
        self._forwarded_address = forwarded.address
        self.scheme = forwarded.scheme
        self.path = forwarded.path or self.path
        if forwarded.host:
            self.headers[b"host"] = forwarded.host

    # -- the body ------------------------------------------------------------------------------------------------

    def add(self, piece: bytes) -> None:
        """Add a piece of the body. It is dropped if the body is not needed, and refused if there is no room for it."""
        size = len(piece)
        self.received += size
        if self.is_released:
            return
        bodies = self._connection.bodies
        if bodies.take(size, self.received <= SMALL):
            self._held += size
            self.pieces.append(piece)
        else:
            self.refuse(bodies.refusal())

    def expect(self, length: int) -> None:
        """Announce the length of the body. If there is no room for it, nothing is read."""
        bodies = self._connection.bodies
        if self.body_error is None and not bodies.has_room(length - self.received, length <= SMALL):
            self.refuse(bodies.refusal())

    def refuse(self, problem: StokerError) -> None:
        """Drop the body, and read no more of it."""
        self.body_error = problem
        self.release()
        self.signal_arrival()

    def release(self) -> None:
        """Drop the body, which is no longer needed. Its bytes go back to the budget."""
        self.is_released = True
        held, self._held = self._held, 0
        self._connection.bodies.give_back(held)
        self.pieces, self._gathered = [], 0

    def wait_for_more(self) -> asyncio.Future[None]:
        """Done when another piece has arrived, the body is complete, or the client is gone. A client that waits for
        `100 Continue` gets it.
        """
        if not self.is_lost and self.headers.pop(b"expect", b"").lower() == b"100-continue":
            self._transport.write(STATUS_LINES[100] + b"\r\n")
        self.arrival = self._connection.loop.create_future()
        return self.arrival

    def signal_arrival(self) -> None:
        """Complete the future of `wait_for_more`."""
        arrival, self.arrival = self.arrival, None
        if arrival is not None and not arrival.done():
            arrival.set_result(None)

    def join_pieces(self) -> None:
        """Join the pieces of one read: many small chunks would take several times their size. Those of a large body
        become blocks that the C library gives back to the system as soon as they are freed.
        """
        if len(self.pieces) > self._gathered + 1:
            self.pieces[self._gathered :] = [b"".join(self.pieces[self._gathered :])]
        self._gathered = len(self.pieces)
        if self._held >= self._next_block:
            blocks = list(takewhile(lambda piece: len(piece) >= _BLOCK, self.pieces))
            self.pieces = [*blocks, b"".join(self.pieces[len(blocks) :])]
            self._gathered = len(self.pieces)
            self._next_block = self._held + _BLOCK

    def take_body(self) -> bytes:
        """The body so far. It can be taken once."""
        pieces, self.pieces, self._gathered = self.pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take_whole_body(self, limit: int) -> bytes:
        """The body, if all of it has arrived and it has at most `limit` bytes; else empty. It can be taken once."""
        return self.take_body() if self.is_whole and self.received <= limit and self.body_error is None else b""

    def give_back_body(self) -> None:
        """Give the bytes of a body that was taken, and is in memory no longer, back to the budget."""
        held, self._held = self._held, 0
        self._connection.bodies.give_back(held)

    def pause_body(self) -> None:
        """Read no more of the body until `resume_body`."""
        self._connection.pause_body()

    def resume_body(self) -> None:
        """Read on."""
        self._connection.resume_body()

    # -- the reply -----------------------------------------------------------------------------------------------

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        """Write the head. `length` None: the body is chunked (for HTTP/1.0: ends with the connection)."""
        head = self._head(status, headers, length)
        if not self.is_lost:
            self._transport.write(head)

    def _head(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None) -> bytes:
        self.is_started = True
        self._is_raw = length is not None or self.version == "1.0"
        parts = [STATUS_LINES[status]]
        for name, value in self._connection.state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        if status in (204, 304):
            pass  # it has neither a body nor a content-length (RFC 9110, 8.6)
        elif length is not None:
            parts.append(b"content-length: %d\r\n" % length)
        elif self._is_raw:
            self.keeps_alive = False
        else:
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n" if self.keeps_alive else b"connection: close\r\n\r\n")
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        """Write a piece of the body; empty pieces are skipped (an empty chunk would end the reply)."""
        if self.is_lost or not data:
            return
        if not self._is_raw:
            size = len(data)
            head = _CHUNK_HEADS[size] if size < _SMALL_CHUNK else b"%x\r\n" % size
            data = b"".join((head, data, b"\r\n"))
        self._transport.write(data)

    def finish(self, last: bytes = b"") -> None:
        """End the reply; the connection is kept if both sides want that."""
        if not self.is_lost:
            if self._is_raw:
                if last:
                    self._transport.write(last)
            elif last:
                self._transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
            else:
                self._transport.write(b"0\r\n\r\n")
        self._complete()

    def expect_tunnel(self) -> None:
        """The head offers WebSocket."""
        self.offers_websocket, self.keeps_alive = True, False

    def switch_protocols(
        self,
        headers: Iterable[tuple[bytes, bytes]],
        receive: Callable[[bytes], None],
        resume: Callable[[], None],
        end: Callable[[], None] | None = None,
    ) -> None:
        """Answer 101: from now on `write` sends bytes as they are, `receive` gets what the client sends, `resume` is
        called when a slow client reads again, `end` when the connection should end as soon as nothing is under way.
        """
        self.is_started = self._is_raw = True
        self.on_resume = resume
        parts = [STATUS_LINES[101]]
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
        if not self.is_lost:
            self._transport.write(b"".join((*parts, b"\r\n")))
            self._connection.begin_tunnel(receive, end)

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Write a complete reply."""
        head = self._head(status, headers, len(body))
        self._connection.outbox.put(self._deliver, head if self.method == "HEAD" else head + body)

    def _deliver(self, message: bytes) -> None:
        if not self.is_lost:
            self._transport.write(message)
        self._complete()

    def break_off(self) -> None:
        """Close without a proper end, so that the client does not take a part for the whole reply."""
        self.keeps_alive = False
        self._complete()

    def refuse_body(self) -> None:
        """Read no more from this connection. Its reply, which may come later, is the last one."""
        self.keeps_alive = False
        self._connection.stop_reading()

    def close_after(self) -> None:
        """This reply is the connection's last (an unread body would be taken for the next request)."""
        self.keeps_alive = False

    def mark_lost(self) -> None:
        """The client is gone."""
        if self.is_lost or self.is_finished:
            return
        self.is_lost = True
        if not self.is_answering:
            self.release()
        if self.arrival is not None:
            self.signal_arrival()
        if self.on_lost is not None:
            self.on_lost()

    def _complete(self) -> None:
        self.on_lost = self.on_pause = self.on_resume = None
        if not self.is_finished:
            self.is_finished = True
            if not self.is_answering:
                self.release()
            if not self.is_lost:
                self._connection.on_replied(self)


def _target(url: bytes) -> tuple[bytes, bytes]:
    """(path, query) as they were sent. Raises httptools.HttpParserInvalidURLError."""
    if url[:1] == b"/" and b"?" not in url and b"#" not in url:
        return url, b""
    parsed: Any = httptools.parse_url(url)  # its annotations do not say that a part can be missing
    return parsed.path or b"/", parsed.query or b""
