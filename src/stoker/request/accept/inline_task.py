"""A request's coroutine, run by callbacks.

A task starts with the loop's next turn, and goes on a turn after what it waited for is done. A request mostly has all
it needs when its bytes are read: it begins in that very callback, and ends in the one that brings the serve's reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class InlineTask:
    """Runs `work` up to its first wait when made, and on from each wait as soon as that is over.

    Whatever a task may await can be awaited, except what needs to know its task (`asyncio.timeout`, task groups): that
    goes into a task of its own. `running` holds it until the end. `work` has to deal with its own exceptions; one that
    it lets through goes to the loop's exception handler. `ended` is called at the end, however that came.
    """

    __slots__ = ("_ended", "_is_cancelled", "_loop", "_running", "_waits", "_work")

    def __init__(
        self,
        work: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        running: set[Any],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._loop = loop
        self._running = running
        self._ended = ended
        self._is_cancelled = False
        self._waits: asyncio.Future[Any] | None = None
        running.add(self)
        self._go()

    def cancel(self, msg: object = None) -> None:
        """CancelledError at the wait it stands at, with the loop's next turn."""
        if self._waits is None or not self._waits.cancel():
            self._is_cancelled = True  # what it waited for is done just now: `_go` is on its way

    def _go(self, _: object = None) -> None:
        try:
            if self._is_cancelled:
                self._is_cancelled = False
                waits = self._work.throw(asyncio.CancelledError())
            else:
                waits = self._work.send(None)
        except (StopIteration, asyncio.CancelledError):
            self._end()
        except Exception as error:
            self._end()
            self._loop.call_exception_handler({"message": "a request broke", "exception": error})
        else:
            self._waits = waits
            if waits is None:  # asyncio.sleep(0)
                self._loop.call_soon(self._go)
            else:
                waits.add_done_callback(self._go)

    def _end(self) -> None:
        self._running.discard(self)
        self._ended()
