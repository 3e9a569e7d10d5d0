"""Sees one request: what came, what serves got and answered, what the client got."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.domain.lease import Target
from stoker.exchange.request_context import RequestContext
from stoker.request.relay.forwarding_exchange import ForwardingExchange
from stoker.request.relay.pool import ReplyReceiver, RequestBody
from stoker.request.relay.relay import ServeConnection, ServeConnections
from stoker.request.relay.reply import ReplyExchange
from stoker_capture.redaction import hidden, shown_headers
from stoker_capture.store import Call, Capture, CaptureStore, Message


class CaptureRecorder:
    """A `stoker.exchange.recording.Recorder`."""

    def __init__(self, store: CaptureStore) -> None:
        self._store = store

    def begin(self, context: RequestContext, body: bytes) -> RequestRecording:
        exchange = context.exchange
        capture = self._store.open(context.decision.id, context.decision)
        target = exchange.path + (f"?{exchange.query.decode('latin-1')}" if exchange.query else "")
        capture.request.begin(f"{exchange.method} {hidden(target)}", shown_headers(exchange.raw_headers))
        if context.upload is not None:
            capture.request.is_elsewhere = True
        capture.request.write(body)
        context.reply.send_through(RecordedReply(context.reply.exchange, capture.answer))
        return RequestRecording(capture)


class RequestRecording:
    """A `stoker.exchange.recording.Recording`."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def connections(self, serve: str, pool: ServeConnections) -> ServeConnections:
        return _Connections(self._capture, serve, pool)


class RecordedReply(ForwardingExchange):
    """What the client gets. It stands nearest to the connection."""

    def __init__(self, inner: ReplyExchange, message: Message) -> None:
        super().__init__(inner)
        self._message = message

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        headers = list(headers)
        self._message.begin(str(status), shown_headers(headers))
        self._inner.start(status, headers, length)

    def write(self, data: bytes) -> None:
        self._message.write(data)
        self._inner.write(data)

    def finish(self, last: bytes = b"") -> None:
        self._message.write(last)
        self._inner.finish(last)

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        headers = list(headers)
        self._message.begin(str(status), shown_headers(headers))
        self._message.write(body)
        self._inner.reply(status, headers, body)


class _Connections:
    """Those of a pool, for one call. A call that is sent again, because its connection was stale, is another one."""

    def __init__(self, capture: Capture, serve: str, pool: ServeConnections) -> None:
        self._capture, self._serve, self._pool = capture, serve, pool

    def take_idle(self, target: Target) -> ServeConnection | None:
        connection = self._pool.take_idle(target)
        return None if connection is None else _Connection(connection, self._capture.call(self._serve))

    async def open(self, target: Target) -> ServeConnection:
        return _Connection(await self._pool.open(target), self._capture.call(self._serve))


class _Connection:
    def __init__(self, connection: ServeConnection, call: Call) -> None:
        self._connection = connection
        self._call = call

    @property
    def is_reused(self) -> bool:
        return self._connection.is_reused

    @property
    def has_answered(self) -> bool:
        return self._connection.has_answered

    def send(self, receiver: ReplyReceiver, head: bytes, body: RequestBody) -> None:
        message = self._call.request
        line, *lines = head.rstrip(b"\r\n").split(b"\r\n")
        fields = [line.partition(b":") for line in lines]
        target = line.decode("latin-1").removesuffix(" HTTP/1.1")
        message.begin(hidden(target), shown_headers((name, value.strip()) for name, _, value in fields))
        if isinstance(body, bytes):
            message.write(body)
        elif isinstance(body, list):
            for piece in body:
                message.write(piece)
        else:
            message.is_elsewhere = True
        self._connection.send(_Receiver(receiver, self._call.answer), head, body)

    def pause(self) -> None:
        self._connection.pause()

    def resume(self) -> None:
        self._connection.resume()

    def abort(self) -> None:
        self._connection.abort()


class _Receiver:
    def __init__(self, receiver: ReplyReceiver, message: Message) -> None:
        self._receiver = receiver
        self._message = message

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._message.begin(str(status), shown_headers(headers))
        self._receiver.on_head(status, headers)

    def on_data(self, data: bytes) -> None:
        self._message.write(data)
        self._receiver.on_data(data)

    def on_end(self) -> None:
        self._receiver.on_end()

    def on_broken(self, reason: str) -> None:
        self._receiver.on_broken(reason)
