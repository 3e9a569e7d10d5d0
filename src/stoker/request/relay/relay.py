"""One upstream call: bytes go from the serve's socket callback straight to the client's transport.

1. the head comes           -> an error status is decided on when its body is complete; a stream waits for its first
                               meaningful frame; anything else is collected
2. the first meaningful frame -> commit: 200, what was held, and from now on every read is one write
3. the client is slow       -> reading from the serve pauses until it takes bytes again
4. silence                  -> pings; after `stall_timeout` the stream is ended with an error
5. the end                  -> proper only if the dialect's own end was there; else one error event
6. the client is gone, or the lease is cut -> the upstream connection is closed at once
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from stoker.domain.dialect import Dialect
from stoker.domain.errors import CapacityError, ClientLeft, UpstreamError
from stoker.domain.lease import Target
from stoker.request.codec.frames import StreamReader, Usage, read_usage
from stoker.request.relay import faults
from stoker.request.relay.headers import reply_headers
from stoker.request.relay.pool import Connection, Pool
from stoker.request.relay.reply import Reply

MAX_HELD = 256 * 1024
"""Bytes kept of a stream before its first meaningful frame."""
MAX_COLLECTED = 4 * 2**20
"""Bytes of a reply that is not a stream that are kept so that it can still fail as a whole; a larger one flows."""


class Outgoing(NamedTuple):
    """What is sent to the serve."""

    head: bytes
    body: bytes
    dialect: Dialect | None
    remove_usage: bool = False


class Limits(NamedTuple):
    """Seconds; 0 = never."""

    keep_alive: float
    stall_timeout: float


class Stale(Exception):
    """A kept connection had been closed by the serve before it read the request: try again on a new one."""


class Relay:
    """Carries one request. `run` returns when the reply is complete and raises what went wrong; nobody else awaits."""

    def __init__(self, reply: Reply, pool: Pool, limits: Limits) -> None:
        self.reply = reply
        self.usage = Usage()
        self.upstream_status = 0
        self._pool = pool
        self._limits = limits
        self._loop = reply.loop
        self._done: asyncio.Future[None] = reply.loop.create_future()
        self._connection: Connection | None = None
        self._reader: StreamReader | None = None
        self._outgoing: Outgoing | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._held: list[bytes] = []
        self._size = 0
        self._flows = False
        self._is_raw_stream = False
        self._last_data = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._opening: asyncio.Timeout | None = None
        self._ending: Exception | None = None

    async def run(self, target: Target, outgoing: Outgoing) -> None:
        """Send, and wait until the reply is through. Raises UpstreamError (the serve failed; maybe after the commit),
        ClientLeft, or the error of `cut`. On cancel the upstream connection is closed before this returns.
        """
        self._outgoing = outgoing
        connection = self._pool.idle(target)
        try:
            if connection is not None:
                try:
                    self._send(connection, outgoing)
                    await self._done
                    return
                except Stale:
                    self._done = self._loop.create_future()
            self._send(await self._open(target), outgoing)
            await self._done
        finally:
            self._close()

    def cut(self, reason: str) -> None:
        """The lease was taken away."""
        self.end(CapacityError(f"the request was ended by Stoker: {reason}", code="cut"))

    def end(self, error: Exception) -> None:
        """End it from outside: the serve sees its client leave, `run` raises `error`. Does nothing once it is over."""
        if self._ending is None:
            self._ending = error
        if self._done.done():  # over, or between two attempts: `_open` looks at `_ending`
            return
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        self._settle(error)
        if self._opening is not None:
            self._opening.reschedule(self._loop.time())

    # -- the serve's side (socket callbacks) -----------------------------------------------------------------------

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
        self.upstream_status = status
        self._headers = headers
        self._last_data = self._loop.time()
        dialect = self._outgoing.dialect if self._outgoing is not None else None
        kind = _header(headers, b"content-type")
        if status == 200 and dialect is not None and kind.startswith(b"text/event-stream"):
            gzip = _header(headers, b"content-encoding") in (b"gzip", b"deflate")
            remove = self._outgoing is not None and self._outgoing.remove_usage
            self._reader = StreamReader(dialect, remove, gzip)
            self.usage = self._reader.usage
            self._arm()
        else:
            self._is_raw_stream = status == 200 and kind.startswith(b"text/event-stream")

    def on_data(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            self._collect(data)
            return
        self._last_data = self._loop.time()
        out = reader.feed(data)
        if not self._flows:
            self._hold(out, reader)
            return
        if out:
            self._write(out)
        if reader.error is not None:  # the serve has told the client itself: that was the one error event
            self.reply.wire.close_after()
            self.reply.finish()
            self.end(faults.from_frame(reader.error))

    def on_end(self) -> None:
        self._connection = None  # it is the pool's again, and soon somebody else's
        try:
            self._end()
        except Exception as error:
            self._settle(error)  # whatever it is, `run` raises it: nobody may wait for ever
        else:
            self._settle(None)

    def on_broken(self, reason: str) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_reused and not connection.has_answered:
            self._settle(Stale())
            return
        if self._reader is not None and self._reader.has_ended():
            self.on_end()  # the reply was complete; only the connection's end was rude
            return
        self._settle(UpstreamError(f"the serve broke off: {reason}", code="upstream_broke"))

    # -- streams -------------------------------------------------------------------------------------------------

    def _hold(self, out: bytes, reader: StreamReader) -> None:
        """Before the first meaningful frame."""
        self._held.append(out)
        self._size += len(out)
        if reader.error is not None:
            self.end(faults.from_frame(reader.error))
        elif reader.is_encoded and self.reply.is_committed:
            self.end(faults.unusable("compressed its stream, and the client was not told that it would"))
        elif reader.is_meaningful or self._size > MAX_HELD:
            self._flow()

    def _flow(self) -> None:
        """From here on each read is one write."""
        if not self.reply.is_committed:
            self.reply.commit(self.upstream_status, reply_headers(self._headers))
        self.reply.begin()
        self._flows = True
        self._write(b"".join(self._held))
        self._held.clear()

    def _write(self, out: bytes) -> None:
        wire = self.reply.wire
        wire.write(out)
        if wire.is_paused and self._connection is not None:
            self._connection.pause()
            wire.on_resume = self._resume

    def _resume(self) -> None:
        self.reply.wire.on_resume = None
        self._last_data = self._loop.time()  # the silence was the client's
        if self._connection is not None:
            self._connection.resume()

    def _arm(self) -> None:
        waits = [seconds for seconds in (self._limits.keep_alive, self._limits.stall_timeout) if seconds > 0]
        if waits:
            self._timer = self._loop.call_later(min(waits), self._on_silence)

    def _on_silence(self) -> None:
        """One timer per stream that looks back instead of being moved by each event."""
        self._timer = None
        silent = self._loop.time() - self._last_data
        stall, keep_alive = self._limits.stall_timeout, self._limits.keep_alive
        wire = self.reply.wire
        if stall > 0 and silent >= stall and not wire.is_paused:
            self.end(faults.stalled(silent))
            return
        if keep_alive > 0 and silent >= keep_alive and self._flows and not wire.is_paused:
            self.reply.ping()
        self._arm()

    # -- other replies ---------------------------------------------------------------------------------------------

    def _collect(self, data: bytes) -> None:
        if self._flows:
            self._write(data)
            return
        self._held.append(data)
        self._size += len(data)
        if self._size > MAX_COLLECTED and self.upstream_status >= 400:
            what = f"answered HTTP {self.upstream_status} with more than {MAX_COLLECTED} bytes"
            self.end(faults.from_status(self.upstream_status, self._headers) or faults.unusable(what))
        elif self._size > MAX_COLLECTED and self.reply.is_committed:
            self.end(faults.unusable("answered a request for a stream without one"))
        elif self._size > MAX_COLLECTED or self._is_raw_stream:
            self._flow()

    # -- the end -------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Raises UpstreamError when this was no proper end."""
        reader, reply = self._reader, self.reply
        if reader is not None:
            if not self._flows:
                if not reader.has_ended():
                    raise UpstreamError("the serve ended its stream before the first token", code="upstream_empty")
                self._hold(b"", _meaningful(reader))
            if not reader.has_ended():
                raise UpstreamError("the serve ended its stream before it was complete", code="upstream_broke")
            reply.finish(reader.rest())
            return
        if self._flows:
            reply.finish()
            return
        body = b"".join(self._held)
        if self.upstream_status >= 400:
            error = faults.from_status(self.upstream_status, self._headers)
            if error is not None:
                raise error
            if reply.is_committed:
                raise faults.refused(self.upstream_status)
        else:
            if reply.is_committed:
                raise faults.unusable("answered a request for a stream without one")
            self.usage = read_usage(body, gzip=_header(self._headers, b"content-encoding") in (b"gzip", b"deflate"))
        reply.begin()
        reply.whole(self.upstream_status, reply_headers(self._headers), body)

    # -- steps -----------------------------------------------------------------------------------------------------

    async def _open(self, target: Target) -> Connection:
        """A new connection. Whoever ends the request meanwhile does not wait until it is made."""
        if self._ending is not None:
            raise self._ending
        try:
            async with asyncio.timeout(None) as self._opening:
                return await self._pool.open(target)
        except TimeoutError:
            raise (self._ending or ClientLeft()) from None
        finally:
            self._opening = None

    def _send(self, connection: Connection, outgoing: Outgoing) -> None:
        self._connection = connection
        if self._done.done():  # gone while the connection was made
            connection.abort()
        else:
            connection.send(self, outgoing.head + outgoing.body if len(outgoing.body) < 65536 else outgoing.head)
            if len(outgoing.body) >= 65536:
                connection.transport.write(outgoing.body)

    def _settle(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._done.done():
            if error is None:
                self._done.set_result(None)
            else:
                self._done.set_exception(error)

    def _close(self) -> None:
        """Whatever the way out: no timer, and no upstream call that nobody listens to."""
        self.reply.wire.on_resume = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        connection, self._connection = self._connection, None
        if self._done.cancelled() or self._done.cancel():
            if connection is not None:
                connection.abort()
        else:
            self._done.exception()  # seen, also when the connection could not even be made


def _header(headers: list[tuple[bytes, bytes]], name: bytes) -> bytes:
    for key, value in headers:
        if key == name:
            return value.strip().lower()
    return b""


def _meaningful(reader: StreamReader) -> StreamReader:
    reader.is_meaningful = True
    return reader
