"""One client connection.

llhttp parses. A request begins in the callback that read it, when all of that read has been parsed. Requests of one
connection are answered one after the other, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

import httptools

from stoker.domain.errors import ClientError
from stoker.request.accept.budget import BodyBudget
from stoker.request.accept.idle_connections import IdleConnections
from stoker.request.accept.inline_task import InlineTask
from stoker.request.accept.read_turns import LARGE_READ, ReadTurns
from stoker.request.accept.server_state import ServerState
from stoker.request.accept.wire import STATUS_LINES, Wire
from stoker.request.codec.websocket import offers_websocket
from stoker.request.outbox import Outbox

_BAD_REQUEST: Final = b"Invalid HTTP request received."
_SLOW_HEAD: Final = b"The head of the request did not come within 10 s."
MAX_HEAD: Final = 64 * 1024
"""Bytes accepted without progress (a complete head, body data, or the end of a message): heads, trailers, chunk
extensions.
"""
WEBSOCKET_PATHS: Final = ("/v1/realtime", "/v1/responses")
"""The only paths, behind whatever prefix, on which an offer of WebSocket is not ignored."""


KEEP_ALIVE = 75.0
"""Seconds that a connection may wait for its next request."""
HEAD_WITHIN = 10.0
"""Seconds in which a head has to be complete, once it has begun."""
_TICK = 0.001
"""Seconds. The event loop's clock may stand still for so long."""


class UploadPace(NamedTuple):
    """How fast a body must come."""

    seconds: float = 30.0
    """Between two checks."""
    rate: int = 1024
    """Least bytes per second, on average between two checks."""


PACE = UploadPace()


class Lingering(NamedTuple):
    """What a connection still reads, and throws away, behind a reply that came before the end of its request's body.
    A connection that is closed at once would be reset, and a reset may overtake the reply.
    """

    seconds: float = 5.0
    size: int = 32 * 2**20
    """Bytes."""


LINGERING = Lingering()


class RequestHandler(Protocol):
    """Answers requests."""

    outbox: Outbox
    bodies: BodyBudget
    idle: IdleConnections
    read_turns: ReadTurns

    def handle(self, wire: Wire) -> Coroutine[Any, Any, None] | None:
        """Answer at once, or return the coroutine that will. Raises nothing."""


class WireProtocol(asyncio.Protocol):
    """See the module's docstring. The server makes one for each client."""

    __slots__ = (
        "_discarded",
        "_early",
        "_end_tunnel",
        "_fruitless",
        "_handler",
        "_head",
        "_headers",
        "_idle",
        "_idle_since",
        "_incoming",
        "_is_reading",
        "_is_throttled",
        "_keep_alive",
        "_linger",
        "_lingering",
        "_next",
        "_opened",
        "_pace",
        "_parser",
        "_read_turns",
        "_receive",
        "_running",
        "_timer",
        "_unsent",
        "_upload",
        "_uploaded",
        "_url",
        "bodies",
        "is_local",
        "is_paused",
        "loop",
        "outbox",
        "state",
        "transport",
    )  # fmt: skip

    def __init__(
        self,
        handler: RequestHandler,
        server_state: ServerState,
        pace: UploadPace = PACE,
        lingering: Lingering = LINGERING,
    ) -> None:
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made
        self.loop = asyncio.get_running_loop()
        self.state = server_state
        self.is_local = False
        """The peer came through the control socket (mode 0600): it is the user who runs Stoker."""
        self.is_paused = False
        """The client is slow: its buffer is above the high-water mark."""
        self._handler: RequestHandler = handler
        self.outbox = self._handler.outbox
        self.bodies = self._handler.bodies
        self._idle = self._handler.idle
        self._read_turns = self._handler.read_turns
        self._parser = _parser(self)
        self._keep_alive = KEEP_ALIVE
        self._opened = self._idle_since = 0.0
        self._head: asyncio.TimerHandle | None = None
        """Looks whether a head that came in more than one read is complete."""
        self._timer: asyncio.TimerHandle | None = None
        self._pace = pace
        self._upload: asyncio.TimerHandle | None = None
        """Checks the pace of a body that comes in more than one read."""
        self._uploaded = 0
        """Bytes of that body at the last check."""
        self._lingering = lingering
        self._receive: Callable[[bytes], None] | None = None
        """Gets what comes instead of the parser: the connection only lingers, or is a tunnel."""
        self._early = b""
        """What came behind a head that offers WebSocket."""
        self._end_tunnel: Callable[[], None] | None = None
        """Ends a tunnel as soon as nothing is under way in it; None: there is no tunnel, or the server waits for it."""
        self._linger: asyncio.TimerHandle | None = None
        """Ends a connection that only reads what is left of a refused body."""
        self._discarded = 0
        """Bytes of it so far."""
        self._fruitless = 0
        """Bytes since the last progress: see MAX_HEAD."""
        self._unsent = 0
        """Bytes that a closing connection still had to send at the last check."""
        self._is_reading = True
        self._is_throttled = False
        """Reading is paused until other connections had their turn."""
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._incoming: Wire | None = None
        """The request whose body is being received."""
        self._running: Wire | None = None
        self._next: list[Wire] = []

    # -- asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        sock = transport.get_extra_info("socket")
        self.is_local = sock is not None and sock.family == getattr(socket, "AF_UNIX", None)
        self.state.connections.add(self)
        self._opened = self._idle_since = self.loop.time() - _TICK
        self._timer = self.loop.call_later(self._keep_alive, self._check_idle)
        if len(self.state.connections) > self.state.most:
            self.state.make_room(self)

    def data_received(self, data: bytes) -> None:
        if self._receive is not None:
            self._receive(data)
            return
        self._fruitless += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if not self._ignore_upgrade(offer.args[0], data):
                return
        except httptools.HttpParserError:
            self._refuse()
            return
        if self._fruitless == 0:
            self._idle_since = self.loop.time()
        elif self._fruitless > MAX_HEAD:
            self._refuse()
            return
        elif self._fruitless == len(data) and self._incoming is None:
            self._await_head()
        if self._incoming is not None:
            self._incoming.join_pieces()
            if self._upload is None:
                self._uploaded = self._incoming.received
                self._upload = self.loop.call_later(self._pace.seconds, self._check_upload)
        if self._running is None and self._next:
            self._start()
        if len(data) >= LARGE_READ:
            self._count_large(len(data))

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.state.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._linger is not None:
            self._linger.cancel()
        if self._head is not None:
            self._head.cancel()
        self._end_upload()
        left, self._next = self._next, []
        for wire in (self._running, *left):
            if wire is not None:
                wire.mark_lost()
        self._incoming = self._running = self._parser = self._receive = self._end_tunnel = (
            None  # leaves no reference cycle for the garbage collector
        )

    def pause_writing(self) -> None:
        self.is_paused = True
        running = self._running
        if running is not None:
            running.is_paused = True
            if running.on_pause is not None:
                running.on_pause()

    def resume_writing(self) -> None:
        self.is_paused = False
        running = self._running
        if running is None:
            self.loop.call_soon(self._start)
            return
        running.is_paused = False
        if running.on_resume is not None:
            running.on_resume()

    def shutdown(self) -> None:
        """The server is shutting down: the request under way is the last one of this connection."""
        if self._end_tunnel is not None:
            self._end_tunnel()
        elif self._running is None or not (self._running.is_whole or self._running.is_started):
            self.transport.close()  # no request runs, or its body is incomplete and would be refused
        else:
            self._running.close_after()

    # -- moving to another process: see `MovableConnection` ------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        is_between_requests = self._running is None and self._incoming is None and not self._next
        if self._linger is not None:
            return False
        has_begun = self._fruitless or self._url or self._headers  # a head that came behind the last request
        return is_between_requests and not has_begun and not self.transport.get_write_buffer_size()

    @property
    def is_unproved(self) -> bool:
        return self._idle_since == self._opened and not self._next and self._running is None

    @property
    def waiting_since(self) -> float:
        return self._idle_since

    @property
    def is_encrypted(self) -> bool:
        return self.transport.get_extra_info("ssl_object") is not None

    def move(self, take: Callable[[int], None]) -> bool:
        transport = self.transport
        if self._end_tunnel is not None:
            self._end_tunnel()  # its client opens another one
        if not self.is_idle or self.is_encrypted or transport.is_closing():
            return False
        take(transport.get_extra_info("socket").fileno())
        transport.abort()  # closes this descriptor; the connection goes on with its copy
        return True

    def announce_end(self) -> None:
        if self._end_tunnel is not None:
            self._end_tunnel()
        elif self._running is not None and not self._running.is_started:
            self._running.close_after()

    # -- llhttp --------------------------------------------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        url, self._url = self._url, b""
        headers, self._headers = self._headers, []
        keeps_alive = parser.should_keep_alive()
        self._incoming = wire = Wire(self, parser.get_method().decode(), url, headers, keeps_alive)
        # Only HTTP/1.1 keeps a connection without being asked to; llhttp takes both of these for a wish.
        if not keeps_alive or b"connection" in wire.headers or b"proxy-connection" in wire.headers:
            wire.version = parser.get_http_version()
        if wire.version == "1.0" or self._idle.is_ending:
            wire.close_after()
        if wire.has_repeated_headers or b"transfer-encoding" in wire.headers:
            _check_framing(headers)
        self._next.append(wire)
        self._fruitless = 0
        if self._running is not None or self.is_paused or len(self._next) > 1:
            self._read(False)  # limits how many requests a client can send ahead

    def on_body(self, piece: bytes) -> None:
        wire = self._incoming
        self._fruitless = 0
        if wire is not None and not wire.is_finished:  # else the body is ignored
            wire.add(piece)
            if wire.arrival is not None:
                wire.signal_arrival()

    def on_message_complete(self) -> None:
        wire, self._incoming = self._incoming, None
        self._headers = []  # trailers are ignored
        self._fruitless = 0
        if self._upload is not None:
            self._end_upload()
        if wire is not None:
            wire.is_whole = True
            if wire.arrival is not None:
                wire.signal_arrival()

    # -- requests ------------------------------------------------------------------------------------------------

    def on_replied(self, wire: Wire) -> None:
        """The reply is complete: start the next request."""
        self._running = None
        if not wire.keeps_alive:
            if wire.is_whole:
                self.transport.close()
            else:
                self._close_lingering()
            return
        self._idle_since = self.loop.time()
        if self._next:
            self.loop.call_soon(self._start)
        elif self._idle.on_idle is not None:
            self._idle.on_idle(self)

    def _close_lingering(self) -> None:
        """Close behind a reply, without a reset: tell the client that it was the last one, and read what it is still
        sending until it closes, within the limits of `Lingering`. Over TLS only the reading is possible.
        """
        if self.transport.is_closing():
            return
        self._end_upload()
        self._incoming = None
        self._linger = self.loop.call_later(self._lingering.seconds, self.transport.close)
        self._receive = self._discard
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._read(True)

    def _discard(self, data: bytes) -> None:
        size = len(data)
        self._discarded += size
        if self._discarded > self._lingering.size:
            self.transport.close()
        elif size >= LARGE_READ:
            self._count_large(size)

    def stop_reading(self) -> None:
        self._read(False)

    def pause_body(self) -> None:
        self._read(False)

    def resume_body(self) -> None:
        if not self._next and not self.transport.is_closing():
            self._read(True)

    def _start(self) -> None:
        is_closing = self._linger is not None or self.transport.is_closing()
        if self._running is not None or not self._next or self.is_paused or is_closing:
            return  # a client that does not read its replies gets no further ones
        wire = self._running = self._next.pop(0)
        if not self._is_reading and not self._next:
            self._read(True)  # also to notice when the client leaves
        work = self._handler.handle(wire)
        if work is not None:
            wire.is_answering = True
            InlineTask(work, self.loop, self.state.tasks, wire.release)

    def _read(self, reads: bool) -> None:
        if reads is not self._is_reading:
            self._is_reading = reads
            if self._is_throttled:
                return
            if reads:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _count_large(self, size: int) -> None:
        if self._read_turns.must_wait(size) and self._is_reading and not self._is_throttled:
            self._is_throttled = True
            self.transport.pause_reading()
            self._read_turns.wait(self._read_on)

    def _read_on(self) -> None:
        self._is_throttled = False
        if self._is_reading and not self.transport.is_closing():
            self.transport.resume_reading()

    def _ignore_upgrade(self, at: int, data: bytes) -> bool:
        """The head offers to speak another protocol, which a server may ignore (RFC 9110, 7.8); Java's client offers
        h2c with every request. llhttp takes what follows such a head, the body, for the other protocol: so it gets the
        head once more, without the offer. False: the connection was refused.
        """
        wire = self._next[-1]
        is_alone = len(self._next) == 1 and self._running is None
        if is_alone and wire.path.endswith(WEBSOCKET_PATHS) and wire.method == "GET" and offers_websocket(wire.headers):
            wire.expect_tunnel()
            self._early = data[at:]
            self._receive = self._hold
            return True
        while True:
            wire = self._next.pop()
            plain = [(name, value) for name, value in wire.raw_headers if name != b"upgrade"]
            if len(plain) == len(wire.raw_headers):  # CONNECT: nothing follows that is for us
                self._refuse()
                return False
            self._parser = _parser(self)
            lines = b"".join(b"%b: %b\r\n" % header for header in plain)
            target = wire.raw_path + (b"?" + wire.query if wire.query else b"")
            head = b"%b %b HTTP/%b\r\n%b\r\n" % (wire.method.encode(), target, wire.version.encode(), lines)
            data = head + data[at:]
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:  # of the next request in the same read
                at = offer.args[0]
            except httptools.HttpParserError:
                self._refuse()
                return False
            else:
                return True

    def _hold(self, data: bytes) -> None:
        """Keep what comes before the tunnel is open: a client need not wait for the 101. Beyond a bound it has to."""
        self._early += data
        if len(self._early) > MAX_HEAD:
            self._read(False)

    def begin_tunnel(self, receive: Callable[[bytes], None], end: Callable[[], None] | None) -> None:
        """The running request got its 101."""
        early, self._early = self._early, b""
        self._receive, self._end_tunnel = receive, end
        self._read(True)
        if early:
            receive(early)

    def _refuse(self, status: int = 400, text: bytes = _BAD_REQUEST) -> None:
        if self._running is None or not self._running.is_started:
            head = STATUS_LINES[status] + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            self.transport.write(head + b"content-length: %d\r\n\r\n%b" % (len(text), text))
        self.transport.close()

    def _await_head(self) -> None:
        """A head has begun, and is not complete."""
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(HEAD_WITHIN, self._check_head)

    def _check_head(self) -> None:
        """Refuse a head that takes too long, unless an earlier request of the connection is not answered yet."""
        self._head = None
        if self._fruitless == 0 or self._incoming is not None or self._receive is not None:
            return
        if self._running is not None or self._next:
            self._await_head()
        elif not self.transport.is_closing():
            self._refuse(408, _SLOW_HEAD)

    def _check_upload(self) -> None:
        """Refuse a body that arrives too slowly, unless Stoker itself is not reading it."""
        self._upload = None
        wire = self._incoming
        if wire is None or wire.is_finished:
            return
        seconds, rate = self._pace
        came, self._uploaded = wire.received - self._uploaded, wire.received
        if wire is self._running and self._is_reading and came < rate * seconds:
            text = f"the request body is too slow: {came} bytes in {seconds:g} s; send at least {rate} per second"
            wire.refuse(ClientError(text, code="slow_upload", status=408))
            return
        self._upload = self.loop.call_later(self._pace.seconds, self._check_upload)

    def _end_upload(self) -> None:
        if self._upload is not None:
            self._upload.cancel()
            self._upload = None

    def _check_idle(self) -> None:
        """One timer per connection that looks back instead of being moved by each request."""
        is_waiting = self._running is not None and self._running.is_whole  # it waits for its reply
        idle = 0.0 if is_waiting else self.loop.time() - self._idle_since
        if idle >= self._keep_alive:
            idle = 0.0
            left, before = self.transport.get_write_buffer_size(), self._unsent
            self._unsent = left
            if not self.transport.is_closing():
                self.transport.close()
            elif left >= before:
                self.transport.abort()  # the client reads nothing: only this ends the connection
        self._timer = self.loop.call_later(self._keep_alive - idle, self._check_idle)


def _check_framing(headers: list[tuple[bytes, bytes]]) -> None:
    """Raises ValueError for a head that two readers could understand differently, before any byte of its body."""
    if any(name == b"transfer-encoding" and value.strip().lower() != b"chunked" for name, value in headers):
        raise ValueError("unsupported Transfer-Encoding")
    if sum(name == b"host" for name, _ in headers) > 1:
        raise ValueError("more than one Host header")


def _parser(protocol: WireProtocol) -> Any:
    """llhttp; bytes after a connection's last request are ignored."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
