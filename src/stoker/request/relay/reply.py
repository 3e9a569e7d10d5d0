"""The client's side of one request. The status is sent only when there is something to send after it.

open       nothing was sent: a failure is a real HTTP status
committed  the 200 is out (with the first meaningful frame, or after `commit_after` of waiting with pings): a failure is
           one error event, and the connection closes
finished   the reply has ended; everything after that does nothing
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from stoker.domain.dialect import Dialect
from stoker.domain.errors import StokerError
from stoker.request.codec.own_replies import (
    StreamPosition,
    bare_response,
    error_body,
    error_event,
    error_headers,
    ping,
    status_of,
    stream_headers,
)
from stoker.request.codec.upstream_messages import UpstreamMessages

ANNOUNCE_AFTER = 1.0
"""Seconds until the client is told what its request waits for."""
ANNOUNCE_EVERY = 5.0
_STREAMS = (b"text/event-stream", b"application/x-ndjson")
_NOTHING: Final = StreamPosition()


class ReplyExchange(Protocol):
    """The request's connection to its client: `HttpExchange`. No method waits. Writes to a lost client do nothing."""

    on_resume: Callable[[], None] | None

    @property
    def is_paused(self) -> bool: ...

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None: ...

    def write(self, data: bytes) -> None: ...

    def finish(self, last: bytes = b"") -> None: ...

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None: ...

    def break_off(self) -> None: ...

    def close_after(self) -> None: ...


class Reply:
    """See the module's docstring."""

    __slots__ = (
        "_announce",
        "_commit_at",
        "_has_events",
        "_keep_alive",
        "_now",
        "_timer",
        "_told",
        "created",
        "dialect",
        "error",
        "exchange",
        "first_byte_at",
        "headers",
        "is_committed",
        "is_finished",
        "loop",
        "model",
        "position",
        "request_id",
        "status",
        "upstream_messages",
    )

    def __init__(
        self,
        wire: ReplyExchange,
        dialect: Dialect | None,
        request_id: str,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], float],
        upstream_messages: UpstreamMessages | None = None,
    ) -> None:
        """`now`: the clock, in seconds. `upstream_messages`: how much of an engine's error text the client sees."""
        self.exchange = wire
        self.dialect = dialect
        self.request_id = request_id
        self.loop = loop
        self.upstream_messages = upstream_messages or UpstreamMessages()
        self.headers: dict[bytes, bytes] = {}
        """Added to whatever head goes out."""
        self.status = 0
        self.is_committed = False
        self.is_finished = False
        self.first_byte_at: float | None = None
        """When the serve's first bytes went out, by `now`; None: not yet."""
        self.error: StokerError | None = None
        """The error in a reply that was passed on unchanged, in the serve's own words; None: there is none."""
        self.position: Callable[[], StreamPosition] = StreamPosition
        """Returns how far the serve's stream has come."""
        self.model = ""
        self.created = 0
        """What a stream says of itself before the serve has begun it, in dialects that say so (`names_model`): the
        name that the client asked for, and Unix seconds.
        """
        self._now = now
        self._told = _NOTHING
        self._has_events = False
        self._keep_alive = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._announce: Callable[[], bytes] | None = None
        self._commit_at = math.inf

    def expect_stream(self, commit_after: float, keep_alive: float) -> None:
        """The client asked for a stream: after `commit_after` seconds (0 = never) it gets its 200, and a ping then and
        every `keep_alive` seconds (0 = no more) until `begin`.
        """
        self._keep_alive = keep_alive
        if commit_after > 0:
            self._timer = self.loop.call_later(commit_after, self._commit_early)

    def expect_announced_stream(self, commit_after: float, announce: Callable[[], bytes]) -> None:
        """As `expect_stream`, for a client that is told meanwhile what its request waits for: `announce()` returns the
        event that says so, or nothing. The first one commits the reply. It goes past nothing that reads the answer.
        """
        self._announce = announce
        self._commit_at = self.loop.time() + commit_after if commit_after > 0 else math.inf
        self._timer = self.loop.call_later(ANNOUNCE_AFTER, self._announce_again)

    def commit(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of a reply whose body follows in pieces."""
        self._disarm()
        self.is_committed = True
        # Only between plain events of a known dialect is there room for an event or a ping of ours
        self._has_events = self.dialect is not None and _is_plain_stream(headers)
        self.status = status
        request_id = (b"x-request-id", self.request_id.encode())
        self.exchange.start(status, [*headers, *self.headers.items(), request_id])

    def go_on(self, data: bytes, keep_alive: float) -> None:
        """Between two replies of a serve that are one stream: send `data`, and until `begin` a ping every `keep_alive`
        seconds (0: none).
        """
        self.begin()
        self.tell(data, self._told, keep_alive)

    def tell(self, data: bytes, told: StreamPosition, keep_alive: float) -> None:
        """Before any serve has begun: send `data`, what Stoker itself says in the answer, and pings as `go_on` does.
        `told`: how far the stream has come with it. Every serve may still answer.
        """
        self._disarm()
        if not self.is_committed:
            self.commit(200, list(stream_headers(self.dialect)))
        self._told = told
        self.exchange.write(data)
        self._keep_alive = keep_alive
        if keep_alive > 0:
            self._timer = self.loop.call_later(keep_alive, self._ping_again)

    def begin_tunnel(
        self, headers: list[tuple[bytes, bytes]], switch: Callable[[Iterable[tuple[bytes, bytes]]], None]
    ) -> None:
        """Answer 101 by `switch`. What follows is no reply: `finish` and `fail` close the connection."""
        self._disarm()
        self.is_committed = True
        self.status = 101
        switch([*headers, *self.headers.items(), (b"x-request-id", self.request_id.encode())])

    def begin(self) -> None:
        """The serve's own bytes follow: stop the pings."""
        self._disarm()
        if self.first_byte_at is None:
            self.first_byte_at = self._now()

    def send_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a complete reply; nothing may be committed."""
        if self.is_finished:
            return
        self._disarm()
        self.is_finished = True
        self.status = status
        request_id = (b"x-request-id", self.request_id.encode())
        self.exchange.reply(status, [*headers, *self.headers.items(), request_id], body)

    def ping(self) -> None:
        if self._has_events:
            self.exchange.write(ping(self.dialect, self.model, self.created))

    def set_header(self, name: bytes, value: bytes) -> None:
        self.headers[name] = value

    def remove_header(self, name: bytes) -> None:
        """The header need not be set."""
        self.headers.pop(name, None)

    def finish(self, last: bytes = b"") -> None:
        """The proper end of a stream."""
        if not self.is_finished:
            self.is_finished = True
            self._disarm()
            self.exchange.finish(last)

    def send_through(self, wire: ReplyExchange) -> None:
        """Send everything through `wire`, which stands before the connection. Nothing was sent yet."""
        self.exchange = wire

    def restart(self, wire: ReplyExchange, has_head: bool = False) -> None:
        """Discard a reply that the wire it was sent through has held back: another one goes to `wire`. `has_head`: the
        client has the head of a stream.
        """
        self.exchange = wire
        self.is_finished, self.is_committed = False, has_head

    def set_dialect(self, dialect: Dialect | None) -> None:
        """Set the client's dialect, once its path is known."""
        self.dialect = dialect

    def fail(self, error: StokerError, close: bool = False) -> None:
        """Send the error: as a real status if nothing is committed; else as one error event, or, if the reply has no
        events, by breaking it off. If something is committed, the connection closes.

        `close`: the connection cannot be used again (a body was left unread).
        """
        if self.is_finished:
            return
        if self.is_committed and not self._has_events:
            self.break_off()
            return
        self.is_finished = True
        self._disarm()
        error = self.upstream_messages.for_client(error)
        if self.is_committed:
            self.exchange.close_after()
            # without a first byte, the client has no event of the serve's
            position = self._told if self.first_byte_at is None else self.position()
            if position.response is None:
                position = position._replace(response=bare_response(self.request_id, self.model, self.created))
            self.exchange.finish(error_event(error, self.dialect, self.request_id, position))
            return
        if close:
            self.exchange.close_after()
        self.status = status_of(error, self.dialect)
        body = error_body(error, self.dialect, self.request_id)
        self.exchange.reply(
            self.status, [*error_headers(error, self.dialect, self.request_id), *self.headers.items()], body
        )

    def break_off(self) -> None:
        """Close without a proper end: a part of a reply that is not a stream went out already."""
        if not self.is_finished:
            self.is_finished = True
            self._disarm()
            self.exchange.break_off()

    def abandon(self) -> None:
        """The client is gone: write nothing more."""
        self.is_finished = True
        self._disarm()

    def _commit_early(self) -> None:
        self._timer = None
        if not self.is_committed and not self.is_finished:
            self.commit(200, list(stream_headers(self.dialect)))
            self._ping_again()

    def _announce_again(self) -> None:
        self._timer = None
        event = self._announce() if self._announce is not None else b""
        if not self.is_committed and (event or self.loop.time() >= self._commit_at):
            self.commit(200, list(stream_headers(self.dialect)))
        if self.is_committed:
            self.exchange.write(event or ping(self.dialect, self.model, self.created))
        self._timer = self.loop.call_later(ANNOUNCE_EVERY, self._announce_again)

    def _ping_again(self) -> None:
        self.ping()
        if self._keep_alive > 0:
            self._timer = self.loop.call_later(self._keep_alive, self._ping_again)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _is_plain_stream(headers: list[tuple[bytes, bytes]]) -> bool:
    given = {name: value.strip().lower() for name, value in headers}
    encoding = given.get(b"content-encoding", b"identity")
    return given.get(b"content-type", b"").startswith(_STREAMS) and encoding == b"identity"
