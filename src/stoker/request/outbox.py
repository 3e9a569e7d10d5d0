"""Complete messages that are written together.

A write to a socket wakes the process at the other end, which is the most expensive part of a small message. Messages of
one iteration of the event loop are therefore written in a row, which wakes it once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

MAX_BATCH = 16
"""Messages that may wait for each other, so that the first does not wait for long."""


class Outbox:
    """Messages go out in the order in which they were put in."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[Callable[[bytes], None], bytes]] = []

    def put(self, send: Callable[[bytes], None], message: bytes) -> None:
        """Call `send(message)` in the next iteration of the loop, or now if many wait."""
        waiting = self._waiting
        if not waiting:
            self._loop.call_soon(self._flush)
        waiting.append((send, message))
        if len(waiting) >= MAX_BATCH:
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for send, message in waiting:
            try:
                send(message)
            except Exception as error:  # the other messages still go out
                self._loop.call_exception_handler({"message": "a message could not be sent", "exception": error})
