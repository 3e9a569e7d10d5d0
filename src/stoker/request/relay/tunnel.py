"""A connection to a serve on which both sides write when they like, after one handshake: a WebSocket session.

Bytes pass unread, with back-pressure in both directions: a side that does not read is not written to.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Protocol

from stoker.domain.errors import UpstreamError
from stoker.domain.printable import one_line
from stoker.request.codec.websocket import FrameBoundary

MAX_HEAD = 64 * 1024
HANDSHAKE_TIMEOUT = 30.0
"""Seconds from the handshake's request to its reply."""
MAX_REFUSAL = 4096
"""Bytes of the reply of a serve that refuses."""
REFUSAL_TIMEOUT = 2.0
"""Seconds for its body."""
_END = b"\r\n\r\n"
_ABOUT_OUR_KEY = (401, 403, 407)


class TunnelClient(Protocol):
    """The client's side. Writing to a lost client does nothing."""

    @property
    def is_paused(self) -> bool: ...

    def write(self, data: bytes) -> None: ...

    def pause_body(self) -> None: ...

    def resume_body(self) -> None: ...


def session_refused(status: int, body: bytes) -> UpstreamError:
    """The serve's reply to the handshake was no 101. The client gets its words, and its status if it blames the client.

    A refusal of the key for the serve is none of the client's fault: that is 502, as every other status.
    """
    said = one_line(" ".join(body.decode(errors="replace").split()))
    text = f"the serve refused the WebSocket session: HTTP {status}{': ' + said if said else ''}"
    is_clients = 400 <= status < 500 and status not in _ABOUT_OUR_KEY
    return UpstreamError(text, code="no_session", status=status if is_clients else 502)


class Tunnel(asyncio.Protocol):
    """The serve's side."""

    def __init__(self, loop: asyncio.AbstractEventLoop, silence: float) -> None:
        """`silence`: seconds without a byte of either side after which the session ends; 0: never."""
        self.transport: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made
        self.boundary = FrameBoundary()
        """Of what the serve sends."""
        self._client_boundary = FrameBoundary()
        self.received = 0
        """Bytes from the serve."""
        self._loop = loop
        self._silence = silence
        self._reply: asyncio.Future[bytes] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._early = b""
        self._more = asyncio.Event()
        """More of a refusal has come, or the connection has ended."""
        self._client: TunnelClient | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last = loop.time()

    # -- what the upstream client does ----------------------------------------------------------------------------

    async def handshake(self, head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Send the handshake; status and headers of the reply. Raises UpstreamError if there is none, or no HTTP."""
        self.transport.write(head)
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                lines = (await self._reply).split(b"\r\n")
        except TimeoutError:
            text = f"the serve did not answer the WebSocket handshake within {HANDSHAKE_TIMEOUT:g} s"
            raise UpstreamError(text, code="stalled", status=504) from None
        try:
            status = int(lines[0].split(b" ", 2)[1])
            pairs = [line.split(b":", 1) for line in lines[1:]]
            return status, [(name.strip().lower(), value.strip()) for name, value in pairs]
        except (IndexError, ValueError):
            raise UpstreamError("the serve's reply to the WebSocket handshake is not HTTP") from None

    async def refusal(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The body of a reply that is no 101: what comes of it in REFUSAL_TIMEOUT, at most MAX_REFUSAL bytes. Empty if
        it is sent in chunks.
        """
        found = dict(headers)
        length = found.get(b"content-length", b"")
        size = min(int(length), MAX_REFUSAL) if length.isdigit() and len(length) < 20 else MAX_REFUSAL
        if b"transfer-encoding" in found:
            return b""
        with suppress(TimeoutError):
            async with asyncio.timeout(REFUSAL_TIMEOUT):
                while len(self._early) < size and not self._ended.done():
                    self._more.clear()
                    self.resume()
                    await self._more.wait()
        return self._early[:size]

    async def relay(self, client: TunnelClient) -> None:
        """Pass on what either side sends, until the serve closes. `from_client` and `resume` are what the client's side
        calls.

        Raises UpstreamError `stalled` if both are silent for too long, `upstream_broke` if the connection ends although
        neither side has sent a close frame. On cancel the caller aborts.
        """
        self._client = client
        early, self._early = self._early, b""
        if early:
            self.data_received(early)
        self.resume()
        self._watch()
        await self._ended

    def from_client(self, data: bytes) -> None:
        self._last = self._loop.time()
        self._client_boundary.feed(data)
        if not self.transport.is_closing():
            self.transport.write(data)

    def abort(self) -> None:
        """Close the connection to the serve. It may be closed already."""
        self._client = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._last = self._loop.time()
        if not self._reply.done():
            self._collect_head(data)
        elif self._client is None:
            self._early += data  # of a serve that speaks before the client has the handshake's reply
            self.transport.pause_reading()
            self._more.set()
        else:
            self.received += len(data)
            self.boundary.feed(data)
            self._client.write(data)
            if self._client.is_paused:
                self.transport.pause_reading()

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._more.set()
        if not self._reply.done():
            self._reply.set_exception(UpstreamError("the serve closed the connection during the WebSocket handshake"))
            self._reply.exception()  # nobody may be waiting any more
        if self._ended.done():
            return
        if self.boundary.has_closed or self._client_boundary.has_closed:
            self._ended.set_result(None)
        else:
            text = "the serve closed the connection without ending the WebSocket session"
            self._ended.set_exception(UpstreamError(text, code="upstream_broke"))
            self._ended.exception()  # nobody may be waiting any more

    def pause_writing(self) -> None:
        if self._client is not None:
            self._client.pause_body()

    def resume_writing(self) -> None:
        if self._client is not None:
            self._client.resume_body()

    # -- steps -----------------------------------------------------------------------------------------------------

    def _collect_head(self, data: bytes) -> None:
        self._early += data
        head, end, rest = self._early.partition(_END)
        if end:
            self._early = rest
            self.transport.pause_reading()  # until the client has the reply
            self._reply.set_result(head)
        elif len(self._early) > MAX_HEAD:
            self._reply.set_exception(UpstreamError("the serve's reply to the WebSocket handshake has no end"))
            self.transport.abort()

    def resume(self) -> None:
        """The client reads again."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _watch(self) -> None:
        """One timer that looks back, instead of being moved by each read."""
        if self._ended.done() or not self._silence:
            return
        left = self._last + self._silence - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._watch)
        else:
            text = f"nothing was sent in either direction for {self._silence:g} s"
            self._ended.set_exception(UpstreamError(text, code="stalled", status=504))
