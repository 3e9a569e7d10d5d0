"""One client connection, from its first byte to its close.

llhttp parses. A request begins in the callback that read it, when all of that read has been parsed. Requests of one
connection are answered one after the other, in the order in which they came.

`WireProtocol` is the connection, `HttpExchange` one request on it, whose reply it writes straight to the socket.
`InlineTask` runs what answers the request. `ServerState` and `IdleConnections` are what all connections share.
"""

from __future__ import annotations

import asyncio
import http
import logging
import resource
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from itertools import takewhile
from typing import Any, Final, NamedTuple, Protocol

import httptools

from stoker.domain.dialect import ENDPOINTS
from stoker.domain.errors import ClientError, ClientLeft, StokerError
from stoker.request.accept.bodies import LARGE_READ, SMALL, BodyBudget, ReadTurns
from stoker.request.codec.websocket import offers_websocket
from stoker.request.outbox import Outbox

log = logging.getLogger("stoker.front")

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
_USUAL_TARGETS: Final = {path.encode(): path for path in ENDPOINTS}
"""Need not be parsed."""
_LARGE_BODY: Final = 4 * 2**20
_BLOCK: Final = 2**20
"""Bytes. Large enough for `LARGE` of `app.allocator`."""
_SMALL_CHUNK: Final = 2048
_CHUNK_HEADS: Final = [b"%x\r\n" % size for size in range(_SMALL_CHUNK)]
"""Of chunks of this size. Most events are small, and formatting a number takes longer than all the rest of a write."""
_RESERVED_DESCRIPTORS: Final = 64
"""Descriptors for the control socket, files, and what watches engines."""
_BATCH: Final = 20
"""So many of the connections that may stay, divided by this, are closed at once: to look at all of them takes time."""
_WARN_EVERY: Final = 60.0
"""Seconds."""


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


class MovableConnection(Protocol):
    """A client's connection, which another process may go on with between two requests."""

    @property
    def is_idle(self) -> bool:
        """No request runs or has begun to come, and the last reply is sent."""

    @property
    def is_encrypted(self) -> bool:
        """Only this process has its keys."""

    def move(self, take: Callable[[int], None]) -> bool:
        """Call `take` with the socket's descriptor, which it may copy, and close the descriptor. False: the connection
        is not idle, or it is encrypted; it stays then. It also stays if `take` raises.
        """

    def announce_end(self) -> None:
        """Let the reply under way be the last one, and say so, if it has not begun."""


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

    def on_replied(self, exchange: HttpExchange) -> None: ...

    def begin_tunnel(self, receive: Callable[[bytes], None], end: Callable[[], None] | None) -> None: ...


class IdleConnections:
    """Rules for all connections, between two requests."""

    def __init__(self) -> None:
        self.on_idle: Callable[[MovableConnection], None] | None = None
        """Called with each connection whose reply is complete and which stays open; None: nothing is called."""
        self.is_ending = False
        """The reply to each request that comes is its connection's last one, and says so."""

    def give_to(self, on_idle: Callable[[MovableConnection], None] | None) -> None:
        """Set `on_idle`."""
        self.on_idle = on_idle

    def end(self, is_ending: bool) -> None:
        """Set `is_ending`."""
        self.is_ending = is_ending


class Cancellable(Protocol):
    """A request that runs."""

    def cancel(self) -> object: ...


class ServerState:
    """`default_headers` are those of each reply."""

    __slots__ = ("_next_warning", "connections", "default_headers", "most", "tasks")

    def __init__(self) -> None:
        self.connections: set[WireProtocol] = set()
        self.tasks: set[Cancellable] = set()
        """The requests that wait for something."""
        self.default_headers: list[tuple[bytes, bytes]] = []
        self.most = sys.maxsize
        """More connections than this `make_room`: each of them, and the serve that answers it, needs a descriptor."""
        self._next_warning = 0.0

    def set_date(self, date: bytes) -> None:
        """Of the replies from here on."""
        self.default_headers = [(b"date", date)]

    def make_room(self, newcomer: WireProtocol) -> None:
        """Close connections so that those who ask find a descriptor: first those that have sent no whole head, then
        those between two requests, each kind the oldest first. If all are at work, the newcomer stays until the
        descriptors are used up. The control socket's are not touched.
        """
        if newcomer.is_local:
            return
        others = [one for one in self.connections if one is not newcomer and not one.is_local]
        others.sort(key=lambda one: one.waiting_since)
        leaving = [one for one in others if one.is_unproved] + [one for one in others if one.is_idle]
        leaving = list(dict.fromkeys(leaving))[: max(1, self.most // _BATCH)]
        if not leaving and len(self.connections) > 2 * self.most:
            leaving = [newcomer]
        for one in leaving:
            self.connections.discard(one)
            one.transport.abort()
        now = newcomer.loop.time()
        if leaving and now >= self._next_warning:
            self._next_warning = now + _WARN_EVERY
            log.warning(
                "%d connections are open: the oldest that ask nothing are closed, because descriptors run out (raise "
                "`ulimit -n`, or LimitNOFILE of the service)", len(self.connections),
            )  # fmt: skip


def most_connections() -> int:
    """How many connections this process has descriptors for, a second one for each of them included."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(1, (limit - _RESERVED_DESCRIPTORS) // 2)


class RequestHandler(Protocol):
    """Answers requests."""

    outbox: Outbox
    bodies: BodyBudget
    idle: IdleConnections
    read_turns: ReadTurns

    def handle(self, exchange: HttpExchange) -> Coroutine[Any, Any, None] | None:
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
        self._incoming: HttpExchange | None = None
        """The request whose body is being received."""
        self._running: HttpExchange | None = None
        self._next: list[HttpExchange] = []

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
        """It has not sent a whole head yet."""
        return self._idle_since == self._opened and not self._next and self._running is None

    @property
    def waiting_since(self) -> float:
        """When it was opened, or made its last progress."""
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
        self._incoming = wire = HttpExchange(self, parser.get_method().decode(), url, headers, keeps_alive)
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

    def on_replied(self, exchange: HttpExchange) -> None:
        """The reply is complete: start the next request."""
        self._running = None
        if not exchange.keeps_alive:
            if exchange.is_whole:
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


def _status_line(status: int) -> bytes:
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return b"HTTP/1.1 %d %b\r\n" % (status, phrase.encode())


STATUS_LINES: Final = {status: _status_line(status) for status in range(100, 600)}


class Forwarded(NamedTuple):
    """What a trusted proxy says about a request. Empty: it did not say."""

    address: str = ""
    """The client's."""
    scheme: str = ""
    host: bytes = b""
    path: str = ""
    """The path without the public prefix, if the proxy left that in."""


class HttpExchange:
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


class BodySource(Protocol):
    """The body of a request while it comes: see `HttpExchange`."""

    headers: dict[bytes, bytes]
    received: int
    is_whole: bool
    is_lost: bool
    body_error: StokerError | None

    def expect(self, length: int) -> None: ...

    def wait_for_more(self) -> Awaitable[None]: ...

    def take_body(self) -> bytes: ...


async def read_body(wire: BodySource, limit: int) -> bytes:
    """The whole body. Raises as `wait_for_body`."""
    await wait_for_body(wire, limit)
    return wire.take_body()


async def wait_for_body(wire: BodySource, limit: int) -> None:
    """Wait until the whole body has arrived. Raises

    ClientError 413    it is too large: before the first byte if its length is declared, else as soon as it is exceeded
    CapacityError 503  the budget for all bodies has no room for it: at the same time
    ClientError 408    it arrives too slowly
    ClientLeft         the client is gone
    """
    declared = wire.headers.get(b"content-length")
    if declared is not None:
        if int(declared) > limit:
            raise _too_large(limit)
        wire.expect(int(declared))
    while not wire.is_whole and wire.received <= limit and wire.body_error is None:
        await wire.wait_for_more()
        if wire.is_lost:
            raise ClientLeft
    if wire.body_error is not None:
        raise wire.body_error
    if wire.received > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> ClientError:
    text = f"the request body is larger than {limit} bytes (front_door.body_limit)"
    return ClientError(text, code="body_too_large", status=413)


class InlineTask:
    """Runs `work` inside callbacks, up to its first wait at once, and resumes it as soon as each wait is over.

    A task starts in the next iteration of the event loop, and resumes one iteration after its wait is over. A request
    usually has all it needs when its bytes are read. So it starts in the callback that read them, and ends in the
    callback that receives the serve's reply.

    `work` may await whatever a task may, except what needs the current task (`asyncio.timeout`, task groups): that
    needs a task of its own. `running` holds this object until `work` ends. `work` handles its own exceptions; others go
    to the loop's exception handler. `ended` is called when `work` has ended, in whatever way.
    """

    __slots__ = ("_ended", "_is_cancelled", "_loop", "_running", "_waits", "_work")

    def __init__(
        self,
        work: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        running: set[Any],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._loop = loop
        self._running = running
        self._ended = ended
        self._is_cancelled = False
        self._waits: asyncio.Future[Any] | None = None
        running.add(self)
        self._go()

    def cancel(self, msg: object = None) -> None:
        """Raise CancelledError at the current wait, in the next iteration of the loop."""
        if self._waits is None or not self._waits.cancel():
            self._is_cancelled = True  # the wait is already over: `_go` is scheduled, and raises it

    def _go(self, _: object = None) -> None:
        try:
            if self._is_cancelled:
                self._is_cancelled = False
                waits = self._work.throw(asyncio.CancelledError())
            else:
                waits = self._work.send(None)
        except (StopIteration, asyncio.CancelledError):
            self._end()
        except Exception as error:
            self._end()
            self._loop.call_exception_handler({"message": "a request broke", "exception": error})
        else:
            self._waits = waits
            if waits is None:  # asyncio.sleep(0)
                self._loop.call_soon(self._go)
            else:
                waits.add_done_callback(self._go)

    def _end(self) -> None:
        self._running.discard(self)
        self._ended()
