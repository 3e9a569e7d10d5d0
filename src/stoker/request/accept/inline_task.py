"""Runs a request's coroutine inside callbacks, without a task.

A task starts in the next iteration of the event loop, and resumes one iteration after its wait is over. A request
usually has all it needs when its bytes are read. So it starts in the callback that read them, and ends in the callback
that receives the serve's reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class InlineTask:
    """Runs `work` up to its first wait at once, and resumes it as soon as each wait is over.

    `work` may await whatever a task may, except what needs the current task (`asyncio.timeout`, task groups): that
    needs a task of its own. `running` holds this object until `work` ends. `work` handles its own exceptions; others go
    to the loop's exception handler. `ended` is called when `work` has ended, in whatever way.
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
        """Raise CancelledError at the current wait, in the next iteration of the loop."""
        if self._waits is None or not self._waits.cancel():
            self._is_cancelled = True  # the wait is already over: `_go` is scheduled, and raises it

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
