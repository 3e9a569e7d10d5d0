"""Complete messages that are written together.

A write to a socket wakes the process at the other end, which is the most expensive part of a small message. Under load
messages of one iteration of the event loop are therefore written in a row, which wakes it once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

FEW: Final = 4
"""Messages in one millisecond that are written at once. More than these are load."""
MAX_BATCH: Final = 16
"""Messages that may wait for each other, so that the first does not wait for long."""


class Outbox:
    """Messages go out in the order in which they were put in."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[Callable[[bytes], None], bytes]] = []
        self._at = 0.0
        self._recent = 0
        """Messages at this time: uvloop's clock counts milliseconds. That of asyncio is too exact to see load."""

    def put(self, send: Callable[[bytes], None], message: bytes) -> None:
        """Call `send(message)`: now, or under load in the next iteration of the loop."""
        now = self._loop.time()
        if now != self._at:
            self._at, self._recent = now, 0
        self._recent += 1
        waiting = self._waiting
        if self._recent <= FEW and not waiting:
            send(message)
            return
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
