"""How a relay ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import msgspec


class RelayCompletion(msgspec.Struct, eq=False):
    """What a request waits for while its relay works in callbacks.

    A Future resumes its waiter with the loop's next turn. `succeed`, which a socket's callback calls, resumes it at
    once; `fail` and `cancel`, which may be called from anywhere, with the next turn. It can be awaited
    once, by an `InlineTask` or by a task.
    """

    _loop: asyncio.AbstractEventLoop
    is_known: bool = False
    _error: BaseException | None = None
    _wake: Callable[[Any], object] | None = None
    _asyncio_future_blocking: bool = False
    """A task takes what has this for a Future."""

    def succeed(self) -> None:
        """It ended well. Only the first word counts."""
        if not self.is_known:
            self.is_known = True
            if self._wake is not None:
                self._tell()

    def fail(self, error: BaseException) -> None:
        """It ended with this error. Only the first word counts."""
        if not self.is_known:
            self.is_known = True
            self._error = error
            self._loop.call_soon(self._tell)

    def close(self) -> None:
        """Nobody waits any more."""
        self.is_known = True
        self._error = self._wake = None

    def _tell(self) -> None:
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
        """A task asks for it before it goes on; an `InlineTask` does not."""
        if self._error is not None:
            raise self._error

    def cancel(self, msg: object = None) -> bool:
        """False if it is over."""
        if self.is_known:
            return False
        self.fail(asyncio.CancelledError())
        return True

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Any = None) -> None:
        """A task (it gives its context) is woken by the loop: it may not run within another."""
        self._wake = wake if context is None else lambda _: self._loop.call_soon(wake, self, context=context)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop
