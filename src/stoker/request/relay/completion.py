"""How a relay ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any


class RelayCompletion:
    """What a request waits for while its relay works in callbacks.

    Unlike a Future, `succeed`, which only a socket's callback calls, resumes the waiter at once. `fail` and `cancel`,
    which may be called from anywhere, resume it in the next iteration of the loop. It can be awaited once, by an
    `InlineTask` or by a task.
    """

    __slots__ = ("_asyncio_future_blocking", "_error", "_loop", "_wake", "is_known")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_known = False
        self._loop = loop
        self._error: BaseException | None = None
        self._wake: Callable[[Any], object] | None = None
        self._asyncio_future_blocking = False
        """A task takes what has this for a Future."""

    def succeed(self) -> None:
        """The relay ended well. Only the first outcome counts."""
        if not self.is_known:
            self.is_known = True
            if self._wake is not None:
                self._resume()

    def fail(self, error: BaseException) -> None:
        """The relay ended with this error. Only the first outcome counts."""
        if not self.is_known:
            self.is_known = True
            self._error = error
            self._loop.call_soon(self._resume)

    def close(self) -> None:
        """The outcome is no longer needed."""
        self.is_known = True
        self._error = self._wake = None

    def _resume(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake(self)

    # -- what a Future has -----------------------------------------------------------------------------------------

    def __await__(self) -> Generator[RelayCompletion, None, None]:
        if not self.is_known:
            self._asyncio_future_blocking = True
            yield self
        if self._error is not None:
            raise self._error

    def result(self) -> None:
        """A task calls this before it resumes; an `InlineTask` does not."""
        if self._error is not None:
            raise self._error

    def cancel(self, msg: object = None) -> bool:
        """False if the relay has already ended."""
        if self.is_known:
            return False
        self.fail(asyncio.CancelledError())
        return True

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Any = None) -> None:
        """A task, which passes its context, is woken by the loop: it may not run inside another one."""
        self._wake = wake if context is None else partial(self._schedule, wake, context)

    def _schedule(self, wake: Callable[[Any], object], context: Any, _: object) -> None:
        self._loop.call_soon(wake, self, context=context)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop
