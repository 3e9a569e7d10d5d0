"""One run of an engine, and the stays of requests in its sequences."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.domain.serve import Serve
from stoker.fleet.conversations.sequences import SequencePlace, Sequences

QUIET = 0.25
"""Seconds in which a request that was broken off has surely arrived in the engine, or never will."""

Spawn = Callable[[Coroutine[Any, Any, int | None]], "asyncio.Task[int | None]"]
Settle = Callable[["EngineRun", SequencePlace], Coroutine[Any, Any, int | None]]


@dataclass(slots=True, eq=False)
class EngineRun:
    """From its start to its end."""

    serve: Serve
    address: Target
    launch: str
    """What has to be the same for a saved cache to be right: configuration, weights, the engine's build."""
    sequences: Sequences
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    async def place(self, key: str, conversation: str | None, size: int) -> SequencePlace:
        """Waits its turn while all are in use. Raises UpstreamError if it is no use. On cancel nothing is taken."""
        loop = asyncio.get_running_loop()
        is_first = False
        while True:
            if self.sequences.is_lost:
                self.end()
                raise no_room_made(self.serve, "it does not answer")
            if (is_first or not self.waiting) and (
                place := self.sequences.on_request(key, conversation, size)
            ) is not None:
                return place
            waiter = loop.create_future()
            if is_first:
                self.waiting.appendleft(waiter)
            else:
                self.waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self.wake()  # it was our turn; the next one's, then
                raise
            is_first = True

    def wake(self) -> None:
        """A sequence is free: wake the longest waiter."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def end(self) -> None:
        """The engine is gone: wake all waiters."""
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_exception(no_room_made(self.serve, "it was stopped"))


class SequenceUse:
    """Implements `domain.conversation.SequenceLease`."""

    __slots__ = ("_asked", "_is_over", "_place", "_run", "_settle", "_spawn", "_work", "restored", "sequence")

    def __init__(self, run: EngineRun, asked: tuple[str, str | None, int], settle: Settle, spawn: Spawn) -> None:
        """`asked`: key, conversation, and bytes of the body."""
        self.sequence: int | None = None
        self.restored: int | None = None
        self._run = run
        self._asked = asked
        self._settle = settle
        self._spawn = spawn
        self._place: SequencePlace | None = None
        self._work: asyncio.Task[int | None] | None = None
        self._is_over = False

    async def prepare(self) -> None:
        self._place = place = await self._run.place(*self._asked)
        self._work = self._spawn(self._settle(self._run, place))
        self.restored = await asyncio.shield(self._work)
        self.sequence = place.sequence.number

    def release(self, tokens: int | None) -> None:
        if self._is_over or self._place is None:
            return
        self._is_over = True
        loop = asyncio.get_running_loop()
        if self._work is not None and not self._work.done():
            self._work.add_done_callback(lambda _: self._leave(None))
        elif self.sequence is not None and tokens is None:
            # An erase for the next one must not overtake the request on its way into the engine.
            loop.call_later(QUIET, self._leave, None)
        else:
            self._leave(tokens)

    def _leave(self, tokens: int | None) -> None:
        assert self._place is not None
        self._run.sequences.on_done(self._place, tokens)
        self._run.wake()


def no_room_made(serve: Serve, why: str) -> UpstreamError:
    """Nothing of the request was sent: it may be tried once more."""
    return UpstreamError(f"serve '{serve.name}' did not make room for the conversation: {why}", code="unreachable")
