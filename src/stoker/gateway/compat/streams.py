"""Replies that go on until the client leaves: logs, and the states of the models."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.domain.errors import CapacityError
from stoker.exchange.request_context import RequestContext

MAX_STREAMS = 32
"""How many streams may be open at once."""
POLL_EVERY = 0.25
"""Seconds."""
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
PING_EVERY = 15.0
"""Seconds between two pings, which detect that a client is gone."""


class OpenStreams:
    """Sends streams, a bounded number at once."""

    def __init__(self, is_ending: Callable[[], bool]) -> None:
        """`is_ending()`: Stoker shuts down, so the streams end."""
        self._is_ending = is_ending
        self._open = 0

    async def send(
        self, context: RequestContext, kind: bytes, poll: Callable[[], Awaitable[bytes]], ping: bytes = b""
    ) -> None:
        """Send what `poll()` returns until the client leaves. While it does not read, nothing is polled.

        Raises CapacityError 503 if too many streams are open. On cancel the caller breaks the reply off.
        """
        if self._open >= MAX_STREAMS:
            raise CapacityError(
                f"{MAX_STREAMS} streams of logs and events are open: close one", code="too_many_streams"
            )
        self._open += 1
        try:
            context.reply.commit(200, [(b"content-type", kind), *_HEADERS])
            silent_for = 0.0
            while not context.exchange.is_lost and not self._is_ending():
                piece = b"" if context.exchange.is_paused else await poll()
                if not piece and ping and silent_for >= PING_EVERY and not context.exchange.is_paused:
                    piece = ping
                silent_for = 0.0 if piece else silent_for + POLL_EVERY
                context.exchange.write(piece)
                await asyncio.sleep(POLL_EVERY)
            context.reply.finish()
        finally:
            self._open -= 1
