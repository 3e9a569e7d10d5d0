"""Connections to serves, kept while they are idle. One callback per read; no task, queue or stream object."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

import httptools

from stoker.domain.errors import UpstreamError
from stoker.domain.host_port import host_port
from stoker.domain.lease import Target
from stoker.http.tls_contexts import tls_contexts
from stoker.request.outbox import Outbox
from stoker.request.relay.tunnel import Tunnel
from stoker.system.ports import KEEP_ALIVE

MAX_IDLE: Final = 64
"""Idle connections kept per serve."""
IDLE_LIMIT = 50.0
"""Seconds for which a connection is kept without a request. Load balancers and firewalls drop idle connections after 60
or more, many of them without a word: a request sent on such a connection gets no answer.
"""
MAX_HEAD: Final = 64 * 1024
LARGE: Final = 64 * 1024
"""Bytes from which a body is written without copying it behind its head, and from which a read is large."""
CONNECT_TIMEOUT = 5.0
Connection = TypeVar("Connection", "UpstreamConnection", Tunnel)
_LENGTHS: Final = (b"content-length", b"transfer-encoding")


class StreamedBody(Protocol):
    """A body that is not in memory."""

    def pieces(self) -> Iterator[bytes | memoryview]:
        """From the beginning."""


RequestBody = bytes | list[bytes | memoryview] | StreamedBody
"""In one piece, in several, or read while it is sent."""


class ReplyReceiver(Protocol):
    """Receives one reply. Called from the socket's callback; must not block or raise."""

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None: ...

    def on_data(self, data: bytes) -> None: ...

    def on_end(self) -> None: ...

    def on_broken(self, reason: str) -> None:
        """The connection ended before the reply did, or the reply is not HTTP."""


class UpstreamConnection(asyncio.Protocol):
    """One connection to a serve; carries one request at a time."""

    __slots__ = (
        "_can_stay", "_ended", "_has_head", "_head_size", "_headers", "_is_full", "_is_large", "_is_paused", "_origin",
        "_parser", "_pieces", "_pool", "_receiver", "_unsent", "_yields_turn", "has_answered", "is_closed",
        "is_reused", "on_body", "transport", "was_seen_idle",
    )  # fmt: skip

    def __init__(self, pool: ConnectionPool, origin: tuple[str, int]) -> None:
        self._pool = pool
        self._origin = origin
        self._receiver: ReplyReceiver | None = None
        self._pieces: list[bytes] = []
        """Of the body, as one read brought them; always this list."""
        self.on_body = self._pieces.append
        """The parser calls it; a method would be one more call for each event of a stream."""
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        """Bytes read until the head was complete; some may be the body's."""
        self._ended = False
        self._can_stay = False
        self._has_head = False
        self._is_paused = False
        self._is_large = False
        """The request is not sent in one small message."""
        self._yields_turn = False
        """Reading is paused until other connections had their turn."""
        self._unsent: Iterator[bytes | memoryview] | None = None
        """What is left of a streamed body."""
        self._is_full = False
        """The serve reads more slowly than it is sent to."""
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made
        self.is_closed = False
        self.is_reused = False
        self.was_seen_idle = False
        """The pool has found it idle, and it has not been used since."""
        self.has_answered = False
        """Whether any byte of the current reply has come."""

    # -- what the relay does -------------------------------------------------------------------------------------

    def send(self, receiver: ReplyReceiver, head: bytes, body: RequestBody) -> None:
        """Send one request; `receiver` gets the reply."""
        self._receiver = receiver
        self._headers = []
        self._head_size = 0
        self.has_answered = self._has_head = False
        self._is_large = not isinstance(body, bytes) or len(body) >= LARGE
        if isinstance(body, bytes):
            if self._is_large:
                self.transport.writelines((head, body))
            else:
                self._pool.outbox.put(self._write, head + body)
        elif isinstance(body, list):
            self.transport.writelines([head, *body])
        else:
            self.transport.write(head)
            self._unsent = body.pieces()
            self._send_on()

    def _write(self, message: bytes) -> None:
        if not self.is_closed:
            self.transport.write(message)

    def _send_on(self) -> None:
        """Write a streamed body, as fast as the serve takes it."""
        while self._unsent is not None and not self._is_full and not self.is_closed:
            try:
                piece = next(self._unsent, None)
            except (OSError, EOFError) as error:
                self._break(f"the request's body cannot be read again: {error}")
                return
            if piece is None:
                self._unsent = None
            else:
                self.transport.write(piece)

    def pause(self) -> None:
        if not self.is_closed and not self._is_paused:
            self._is_paused = True
            if not self._yields_turn:
                self.transport.pause_reading()

    def resume(self) -> None:
        if not self.is_closed and self._is_paused:
            self._is_paused = False
            if not self._yields_turn:
                self.transport.resume_reading()

    def abort(self) -> None:
        """Drop the receiver and the connection: the serve sees its client leave. Nothing more is called back."""
        self._receiver = self._unsent = None
        self.is_closed = True
        self.transport.abort()

    # -- asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        if len(data) >= LARGE:
            self._give_turn()
        receiver = self._receiver
        if receiver is None:  # bytes without a request
            self.abort()
            return
        if not self._has_head:
            self.has_answered = True
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(f"it did not answer with HTTP: {error.__context__ or error}")
            return
        if not self._has_head and self._head_size > MAX_HEAD:
            self._break("the reply's head is too large")
            return
        pieces = self._pieces
        if pieces:
            if len(pieces) == 1:
                body = pieces.pop()
            else:
                body = b"".join(pieces)
                pieces.clear()
            receiver.on_data(body)
        if self._ended:
            self._finish()

    def _give_turn(self) -> None:
        """After a large read, give other connections a turn: uvloop would read up to 8 MiB of one."""
        if not self._yields_turn and not self._is_paused and not self.is_closed:
            self._yields_turn = True
            self.transport.pause_reading()
            self._pool.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._yields_turn = False
        if not self._is_paused and not self.is_closed:
            self.transport.resume_reading()

    def eof_received(self) -> None:
        return None

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._unsent is not None:
            self._send_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._unsent = self._parser = None  # leaves no reference cycle for the garbage collector
        self._pool.forget(self, self._origin)
        receiver = self._receiver
        if receiver is None:
            return
        if exc is None and self._has_head and not any(name in _LENGTHS for name, _ in self._headers):
            self._receiver = None  # neither a length nor chunks: the end of the connection is the end of the reply
            receiver.on_end()
        else:
            self._break("the connection was closed" if exc is None else f"the connection broke: {exc}")

    # -- httptools -----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._ended:
            raise ValueError("the serve sent more than one reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._head_size > MAX_HEAD and sum(len(name) + len(value) for name, value in self._headers) > MAX_HEAD:
            raise ValueError("the reply's head is too large")
        status = self._parser.get_status_code()
        if status >= 200 and self._receiver is not None:
            self._has_head = True
            self._receiver.on_head(status, self._headers)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._ended = True
            self._can_stay = self._parser.should_keep_alive()  # the parser forgets it with the next message
        else:
            self._headers = []

    # -- ends ----------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        receiver, self._receiver = self._receiver, None
        self._ended = False
        # a serve may refuse a body before it has read it
        is_sent = self._unsent is None and not (self._is_large and self.transport.get_write_buffer_size())
        self._unsent = None
        if self._can_stay and is_sent and not self.is_closed:
            self.resume()  # its last user may have had a slow client
            self._pool.keep(self, self._origin)
        elif is_sent:
            self.is_closed = True
            self.transport.close()
        else:
            self.is_closed = True
            self.transport.abort()
        if receiver is not None:
            receiver.on_end()

    def _break(self, reason: str) -> None:
        receiver, self._receiver = self._receiver, None
        self._unsent = None
        if not self.is_closed:
            self.is_closed = True
            self.transport.abort()
        if receiver is not None:
            receiver.on_broken(reason)


class ConnectionPool:
    """Idle connections by origin. `take_idle` returns the most recently used one; `open` makes a new one."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, int], deque[UpstreamConnection]] = defaultdict(deque)
        self._sweep: asyncio.TimerHandle | None = None
        self.loop = asyncio.get_running_loop()
        self.outbox = Outbox(self.loop)
        self.opened = 0

    def idle_connections(self) -> list[UpstreamConnection]:
        """Every kept connection, of all origins."""
        return [connection for kept in self._idle.values() for connection in kept]

    def take_idle(self, target: Target) -> UpstreamConnection | None:
        """The most recently used idle connection; None: there is none."""
        kept = self._idle.get((target.host, target.port))
        while kept:
            connection = kept.pop()
            if not connection.is_closed and not connection.transport.is_closing():
                connection.is_reused = True
                return connection
        return None

    async def open(self, target: Target) -> UpstreamConnection:
        """A new connection. Raises UpstreamError if there is none within five seconds. On cancel nothing stays open."""
        origin = (target.host, target.port)
        connection = await self._connect(target, lambda: UpstreamConnection(self, origin))
        self.opened += 1
        return connection

    async def open_tunnel(self, target: Target, silence: float) -> Tunnel:
        """A connection for one session, which is never kept. Raises and cancels as `open`."""
        return await self._connect(target, lambda: Tunnel(self.loop, silence))

    async def _connect(self, target: Target, protocol: Callable[[], Connection]) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                context = await tls_contexts.get(target.ca_file) if target.tls else None
                _, connection = await loop.create_connection(
                    protocol,
                    target.address or target.host,
                    target.port,
                    ssl=context,
                    server_hostname=target.host if target.tls else None,
                )
        except (OSError, TimeoutError) as error:
            why = str(error) or f"no answer within {CONNECT_TIMEOUT:g} s"
            text = f"the serve at {host_port(target.host, target.port)} cannot be reached: {why}"
            raise UpstreamError(text, code="unreachable") from error
        _send_keep_alives(connection.transport)
        return connection

    def keep(self, connection: UpstreamConnection, origin: tuple[str, int]) -> None:
        kept = self._idle[origin]
        kept.append(connection)
        connection.was_seen_idle = False
        if self._sweep is None:
            self._sweep = self.loop.call_later(IDLE_LIMIT / 2, self._close_idle)
        if len(kept) > MAX_IDLE:
            kept.popleft().abort()

    def forget(self, connection: UpstreamConnection, origin: tuple[str, int]) -> None:
        kept = self._idle.get(origin)
        if kept is not None and connection in kept:
            kept.remove(connection)
            if not kept:  # the next start of the serve may have another port
                del self._idle[origin]

    def _close_idle(self) -> None:
        """Close what was idle the last time and still is: after IDLE_LIMIT at the latest. One timer for all."""
        self._sweep = None
        for connection in self.idle_connections():
            if connection.was_seen_idle:
                connection.abort()
            connection.was_seen_idle = True
        if any(self._idle.values()):
            self._sweep = self.loop.call_later(IDLE_LIMIT / 2, self._close_idle)

    def drop(self, host: str, port: int) -> None:
        """Close the idle connections to a serve that is gone."""
        for connection in self._idle.pop((host, port), ()):
            connection.abort()

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for host, port in list(self._idle):
            self.drop(host, port)


def _send_keep_alives(transport: asyncio.Transport) -> None:
    connected = transport.get_extra_info("socket")
    if connected is not None:
        for level, option, value in KEEP_ALIVE:
            with suppress(OSError):  # the other side has closed it already
                connected.setsockopt(level, option, value)
