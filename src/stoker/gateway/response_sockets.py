"""`GET /v1/responses`: the Responses API over WebSocket, as OpenAI and Open Responses have it.

1. each `response.create` is served as a POST of the same body would be: key, limits, routing, decision
2. each event of its stream is one message; a refusal is a message `error` with the status
3. one response at a time; the requests that come meanwhile wait in their order
4. the next request may name the last response as `previous_response_id`, stored or not
5. a connection ends after an hour, with whatever ends it when nothing is under way, and with its client at once
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from stoker.domain.errors import CapacityError, ClientError, StokerError
from stoker.exchange.request_context import RequestContext
from stoker.gateway.flow import Flow
from stoker.gateway.responses import StoredResponses
from stoker.request.accept.bodies import SMALL
from stoker.request.accept.connection import PACE, HttpExchange
from stoker.request.accept.message_wire import LastResponse, MessageExchange
from stoker.request.accept.routes import wrong_method
from stoker.request.codec.bounds import HEAVY
from stoker.request.codec.own_replies import error_body, error_headers
from stoker.request.codec.response_events import error_message, read_message
from stoker.request.codec.websocket import subprotocols

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.protocol import Protocol

LIFETIME = 3600.0
"""Seconds after which a connection takes no more requests, as at OpenAI."""
PING_EVERY = 30.0
"""Seconds between two checks of a connection, each with a ping."""
DEAD_AFTER = 3 * PING_EVERY
"""Seconds without any byte of the client, pongs included, until a connection without a request is closed."""
MAX_WAITING = 8
"""Messages that may wait. No more is read until one of them is served."""
SLICE = 16 * 1024
"""Bytes that are parsed at once: frames may be tiny."""
_LIBRARY = "websockets.protocol"
_VERSION = b"13"
_OWN = (b"connection", b"upgrade", b"content-length", b"content-type", b"x-request-id", b"accept-encoding", b"accept")
"""Headers of the handshake that the requests do not have, besides those that begin with `sec-websocket-`."""
_KEY = b"authorization"
_TEXT, _BINARY, _CONTINUATION = 1, 2, 0
"""Opcodes of frames with a part of a message."""
_NORMAL, _GOING_AWAY, _UNSUPPORTED, _POLICY, _TRY_AGAIN = 1000, 1001, 1003, 1008, 1013

Handle = Callable[[HttpExchange], Coroutine[Any, Any, None] | None]


class ResponseSockets:
    """Opens connections. `handle` serves each request that comes on one."""

    def __init__(self, flow: Flow, handle: Handle, responses: StoredResponses | None) -> None:
        self._flow = flow
        self._handle = handle
        self._responses = responses

    async def handle(self, context: RequestContext) -> None:
        """Serve one connection to its end. Raises ClientError 405 for a GET that offers no WebSocket, 426 if there can
        be none, CapacityError 503 while Stoker drains.
        """
        wire, settings = context.exchange, self._flow.settings
        if wire.headers.get(b"upgrade", b"").strip().lower() != b"websocket":
            raise wrong_method("'/v1/responses' does not accept GET: use POST, or a WebSocket", "POST")
        if self._responses is None or not self._responses.offers_websocket:
            raise _upgrade_required("Stoker's configuration turns WebSocket off here: use POST")
        if wire.headers.get(b"sec-websocket-version") != _VERSION:
            raise _upgrade_required("only version 13 of WebSocket is spoken here: use it, or POST")
        if wire.version != "1.1" or not wire.offers_websocket:
            raise _upgrade_required("a WebSocket needs a handshake of its own over HTTP/1.1: open one, or use POST")
        if self._flow.is_draining:
            text = "Stoker is draining and admits no new requests: try again later"
            raise CapacityError(text, code="draining", retry_after=5.0)
        if _LIBRARY not in sys.modules:  # a tenth of a second, and only a process that serves WebSockets needs it
            await asyncio.to_thread(importlib.import_module, _LIBRARY)
        from websockets.utils import accept_key

        key = wire.headers[b"sec-websocket-key"].strip().decode("latin-1")
        headers = [
            (b"connection", b"Upgrade"),
            (b"upgrade", b"websocket"),
            (b"sec-websocket-accept", accept_key(key).encode()),
        ]
        offered, _ = subprotocols(wire.headers)
        if offered:
            headers.append((b"sec-websocket-protocol", offered[0]))
        bounds = settings.front_door
        socket = ResponseSocket(wire, self._handle, bounds.body_limit, bounds.max_values)
        context.reply.begin_tunnel(headers, socket.open)
        try:
            await socket.run()
        finally:
            socket.close()
            context.reply.finish()


class ResponseSocket:
    """One connection, from its 101 to its end. For the requests on it, it is the connection to the client."""

    def __init__(self, exchange: HttpExchange, handle: Handle, body_limit: int, max_values: int) -> None:
        from websockets.protocol import Protocol, Side

        connection = exchange.connection
        self.transport = connection.transport
        self.loop = connection.loop
        self.state = connection.state
        self.outbox = connection.outbox
        self.bodies = connection.bodies
        self.is_local = connection.is_local
        self.is_idle = False
        self.is_encrypted = connection.is_encrypted
        self._wire = exchange
        self._handle = handle
        self._max_values = max_values
        self._protocol: Protocol = Protocol(Side.SERVER, max_size=body_limit + SMALL)
        self._headers = [
            *(
                (name, value)
                for name, value in exchange.raw_headers
                if name not in _OWN and name[:14] != b"sec-websocket-"
            ),
            (b"content-type", b"application/json"),
        ]
        if all(name != _KEY for name, _ in self._headers) and _KEY in exchange.headers:
            self._headers.append((_KEY, exchange.headers[_KEY]))  # it came as a subprotocol
        self._url = exchange.raw_path + (b"?" + exchange.query if exchange.query else b"")
        self._last_response = LastResponse(self.bodies)
        self._unread = bytearray()
        self._message = bytearray()
        """The fragments of a message that is not complete."""
        self._waiting: deque[bytes] = deque()
        self._held = 0
        """Bytes of all of these, taken from the budget for bodies."""
        self._request: MessageExchange | None = None
        self._woken: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_ending = False
        """Nothing more is served, after the response that is under way."""
        self._is_feeding = False
        self._is_reading = True
        self._opened = self._heard = self.loop.time()
        self._received = self._received_before = 0
        self._begun = 0
        """Bytes of a frame that is not complete."""
        self._timer = self.loop.call_later(PING_EVERY, self._check)

    # -- the handshake's wire --------------------------------------------------------------------------------------

    def open(self, headers: Any) -> None:
        """Answer 101."""
        self._wire.on_lost = self._on_lost
        self._wire.on_pause = self._on_pause
        self._wire.switch_protocols(headers, self._receive, self._on_resume, self.end)
        if self._wire.is_lost:
            self._on_lost()

    def end(self) -> None:
        """End the connection as soon as nothing is under way."""
        self._is_ending = True
        self._wake()

    def close(self) -> None:
        """The connection is over, whatever was under way."""
        self._is_closed = True
        self._timer.cancel()
        self._wire.on_lost = self._wire.on_pause = None
        if self._request is not None:
            self._request.mark_lost()
        self._last_response.forget()
        self._unread.clear()
        self._message.clear()
        self._waiting.clear()
        self._count_held()

    async def run(self) -> None:
        """Serve the requests, one after the other, until either side closes."""
        while (message := await self._next()) is not None:
            await self._serve(message)

    async def _next(self) -> bytes | None:
        """The next message, once the client has room for its reply; None: there is none any more."""
        while not self._is_closed:
            if self._is_ending:
                self._fail(None, _GOING_AWAY, "")
            elif self._waiting and self.loop.time() - self._opened >= LIFETIME:
                self._end_lifetime()
            elif self._waiting and not self.is_paused:
                message = self._waiting.popleft()
                self._count_held()
                self._read()
                return message
            else:
                await self._wait()
        return None

    async def _serve(self, message: bytes) -> None:
        try:
            arguments = message, self._max_values
            is_heavy = len(message) >= HEAVY
            body = await asyncio.to_thread(read_message, *arguments) if is_heavy else read_message(*arguments)
        except ClientError as error:
            self._send_error(error)
            return
        if body is None or self._is_closed:
            return
        request = self._request = MessageExchange(self, self._url, self._headers, body, self._last_response)
        request.is_paused = self.is_paused
        del message, body  # else they would be held until the response has ended
        try:
            work = self._handle(request)
            if work is not None:
                request.is_answering = True
                await work
            while not (request.is_finished or request.is_lost):  # a refusal that is delayed
                await self._wait()
        finally:
            self._request = None
            request.release()

    # -- what the requests use: `ClientConnection` -------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        return self._wire.is_paused

    def send_message(self, message: bytes) -> None:
        """Send a text message. What is no UTF-8 in it is replaced."""
        if self._is_closed:
            return
        try:
            message.decode()
        except UnicodeDecodeError:
            message = message.decode(errors="replace").encode()
        self._protocol.send_text(message)
        self._flush()

    def send_ping(self) -> None:
        if not self._is_closed:
            self._protocol.send_ping(b"")
            self._flush()

    def on_replied(self, exchange: HttpExchange) -> None:
        """The reply to a request is complete."""
        self._wake()

    def stop_reading(self) -> None:
        """The request's body is here already."""

    def pause_body(self) -> None:
        """As `stop_reading`."""

    def resume_body(self) -> None:
        """As `stop_reading`."""

    def begin_tunnel(self, receive: Callable[[bytes], None], end: Callable[[], None] | None) -> None:
        """No request on this connection is a handshake."""

    def move(self, take: Callable[[int], None]) -> bool:
        """It stays in this process."""
        return False

    def announce_end(self) -> None:
        self.end()

    # -- what the client sends -----------------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        self._heard = self.loop.time()
        self._received += len(data)
        if not self._is_closed:
            self._unread += data
            if not self._is_feeding:
                self._feed()

    def _feed(self) -> None:
        """Parse a slice of what has come; the rest in the next iterations of the loop."""
        self._is_feeding = False
        if self._is_closed:
            return
        piece = bytes(self._unread[:SLICE])
        del self._unread[:SLICE]
        self._protocol.receive_data(piece)
        self._begun += len(piece)
        for event in self._protocol.events_received():
            self._begun = len(self._protocol.reader.buffer)
            self._on_frame(event)  # type: ignore[arg-type]  # events after the handshake are frames
        self._flush()
        if not self._count_held():
            self._fail(self.bodies.refusal(), _TRY_AGAIN, "no room for the message")
        elif self._unread and not self._is_closed:
            self._is_feeding = True
            self.loop.call_soon(self._feed)
        self._read()

    def _on_frame(self, frame: Frame) -> None:
        if frame.opcode == _BINARY:
            self._fail(None, _UNSUPPORTED, "messages are JSON in text frames")
        elif frame.opcode in (_TEXT, _CONTINUATION):
            if not frame.fin:
                self._message += frame.data
                return
            self._waiting.append(bytes(self._message + frame.data if self._message else frame.data))
            self._message.clear()
            self._wake()

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._wire.write(data)
            else:  # the closing handshake is over, or the client broke the protocol
                self._on_lost()

    def _read(self) -> None:
        """Read on, or not. A client that does not read could otherwise make Stoker collect answers to its pings."""
        has_room = len(self._waiting) < MAX_WAITING and not self.is_paused
        reads = has_room and not self._is_feeding and not self._is_closed
        if reads is not self._is_reading:
            self._is_reading = reads
            if reads:
                self._wire.resume_body()
            else:
                self._wire.pause_body()

    def _count_held(self) -> bool:
        """Hold in the budget what is in memory of the client's messages. False: there is no room for it."""
        buffered = 0 if self._is_closed else len(self._protocol.reader.buffer)
        size = len(self._unread) + buffered + len(self._message) + sum(map(len, self._waiting))
        more, self._held = size - self._held, size
        if more <= 0:
            self.bodies.give_back(-more)
        elif not self.bodies.take(more, size <= SMALL):
            self._held -= more
            return False
        return True

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _fail(self, error: StokerError | None, code: int, reason: str) -> None:
        """Close from this side."""
        if self._is_closed:
            return
        if error is not None:
            self._send_error(error)
        self._protocol.send_close(code, reason)
        self._flush()
        self._on_lost()

    def _send_error(self, error: StokerError) -> None:
        headers = error_headers(error, None, "")
        self.send_message(error_message(error.status, headers, error_body(error, None, "")))

    def _on_lost(self) -> None:
        """Nothing more goes to the client: what is under way for it ends."""
        self._is_closed = True
        if self._request is not None:
            self._request.mark_lost()
        self._wake()

    def _on_pause(self) -> None:
        """The client is slow."""
        if self._request is not None:
            self._request.is_paused = True

    def _on_resume(self) -> None:
        """The client reads again."""
        if self._request is not None:
            self._request.is_paused = False
            if self._request.on_resume is not None:
                self._request.on_resume()
        self._read()
        self._wake()

    def _check(self) -> None:
        """Every PING_EVERY seconds: ends a connection whose time is over or whose client is gone, and pings others."""
        if self._is_closed:
            return
        self._timer = self.loop.call_later(PING_EVERY, self._check)
        now = self.loop.time()
        came, self._received_before = self._received - self._received_before, self._received
        if self._request is not None or self._waiting:
            self._heard = now  # the request has its own limits
        if now - self._heard >= DEAD_AFTER:
            self._on_lost()
        elif (self._begun or self._message) and came < PACE.rate * PING_EVERY:
            text = f"the message is too slow: {came} bytes in {PING_EVERY:g} s; send at least {PACE.rate} per second"
            self._fail(ClientError(text, code="slow_upload", status=408), _POLICY, "too slow")
        elif now - self._opened >= LIFETIME and self._request is None:
            self._end_lifetime()
        else:
            self.send_ping()

    def _end_lifetime(self) -> None:
        text = f"the connection is {LIFETIME / 60:g} minutes old: open a new one, and send the whole input there"
        self._fail(ClientError(text, code="websocket_connection_limit_reached"), _NORMAL, "connection limit reached")

    async def _wait(self) -> None:
        self._woken = self.loop.create_future()
        await self._woken

    def _wake(self) -> None:
        woken, self._woken = self._woken, None
        if woken is not None and not woken.done():
            woken.set_result(None)


def _upgrade_required(text: str) -> ClientError:
    headers = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": _VERSION.decode()}
    return ClientError(text, code="upgrade_required", status=426, headers=headers)
