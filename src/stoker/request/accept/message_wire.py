"""A request that came as a message of a WebSocket. For all that serves it, it is a POST with that body, whose reply is
a stream of events.

    an event of the stream       one message
    a comment that keeps it up   a ping
    a whole response             the messages that its stream would have had
    any other status than 200    an `error` message with the status; the connection stays
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from stoker.request.accept.bodies import SMALL, BodyBudget
from stoker.request.accept.connection import ClientConnection, HttpExchange
from stoker.request.codec.response_events import error_message, events_of
from stoker.request.codec.sse import FrameSplitter
from stoker.request.stored_responses.compaction import since_compaction
from stoker.request.stored_responses.items import StoredItem

MAX_WHOLE: Final = 4 * 2**20
"""Bytes of a reply that is no stream."""
_TYPE: Final = b"content-type"
_STREAM: Final = b"text/event-stream"
_UNUSABLE: Final = (
    b'{"message":"the serve answered with something else than a response","type":"api_error",'
    b'"code":"upstream_unusable","param":null}'
)
_BROKE: Final = b'{"message":"the serve broke off its reply","type":"api_error","code":"upstream_broke","param":null}'


class MessageConnection(ClientConnection, Protocol):
    """The connection, as the requests on it see it."""

    def send_message(self, message: bytes) -> None: ...

    def send_ping(self) -> None: ...


class MessageExchange(HttpExchange):
    """See the module's docstring."""

    __slots__ = ("_messages", "_parts", "_size", "_splitter", "_status", "last_response")

    def __init__(
        self,
        connection: MessageConnection,
        url: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        last_response: LastResponse,
    ) -> None:
        """`last_response`: of the connection, which this request may go on from."""
        super().__init__(connection, "POST", url, headers, True)
        self.last_response = last_response
        self._messages = connection
        self._splitter: FrameSplitter | None = None
        self._status = 0
        self._parts: list[bytes] = []
        self._size = 0
        self.add(body)
        self.is_whole = True

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        self.is_started = True
        self._status = status
        if status == 200 and any(name == _TYPE and value.startswith(_STREAM) for name, value in headers):
            self._splitter = FrameSplitter()

    def write(self, data: bytes) -> None:
        if self.is_lost or not data:
            return
        if self._splitter is None:
            self._size += len(data)
            if self._size <= MAX_WHOLE:
                self._parts.append(data)
            return
        for event in self._splitter.feed(data):
            if event != b"[DONE]":
                self._messages.send_message(event)
        if data[:1] == b":":
            self._messages.send_ping()

    def finish(self, last: bytes = b"") -> None:
        self.write(last)
        if self._splitter is not None:
            self.write(b"\n\n")  # the last event may lack its blank line
            self._complete()
            return
        parts, self._parts = self._parts, []
        self.reply(self._status, (), b"".join(parts) if self._size <= MAX_WHOLE else b"")

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        self.is_started = True
        events = events_of(body) if status == 200 else None
        if events is None:
            error = (502, _UNUSABLE) if status == 200 else (status, body)
            events = [error_message(error[0], headers, error[1])]
        if not self.is_lost:
            for event in events:
                self._messages.send_message(event)
        self._complete()

    def break_off(self) -> None:
        if not self.is_lost:
            self._messages.send_message(error_message(502, (), _BROKE))
        self._complete()


class LastResponse:
    """What a connection remembers of its last response, so that its next request can go on from there although nothing
    is stored. Counts as a request body while it is kept: where the budget has no room for it, it is not kept.
    """

    def __init__(self, bodies: BodyBudget) -> None:
        self._bodies = bodies
        self._id = ""
        self._items: list[StoredItem] = []
        self._held = 0

    def keep(self, id: str, items: list[StoredItem]) -> None:
        """The response with all that it was asked, in the place of what was kept before."""
        self.forget()
        items = since_compaction(items)
        size = sum(len(item.body) for item in items)
        if id and self._bodies.take(size, size <= SMALL):
            self._id, self._items, self._held = id, items, size

    def items_of(self, id: str | None) -> list[StoredItem] | None:
        """What came before, for a request that continues this response; None: it is not the last one."""
        return self._items if id is not None and id == self._id else None

    def forget(self, id: str | None = None) -> None:
        """Forget the response; with `id` only if it is this one."""
        if id is not None and id != self._id:
            return
        held, self._held = self._held, 0
        self._bodies.give_back(held)
        self._id, self._items = "", []
