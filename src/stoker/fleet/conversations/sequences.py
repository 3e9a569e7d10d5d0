"""Which request gets which of an engine's sequences, and one request's use of it.

Two rules. A sequence serves one request at a time. What one key left in it, no other key meets: it is erased first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.domain.serve import Serve


@dataclass(slots=True, eq=False)
class KvSequence:
    """One of the engine's. What is in it as far as we know: `key` is who may have left something there."""

    number: int
    key: str | None = None
    is_foreign: bool = False
    """It holds an unknown conversation."""
    conversation: str | None = None
    """The conversation that can continue here."""
    size: int = 0
    """Bytes of the last request's body: the only measure of a conversation's length that is always known."""
    tokens: int | None = None
    """As the engine counted them at the end of the last request."""
    used: int = 0
    """The larger, the more recently."""
    is_busy: bool = False
    is_lost: bool = False
    """The result of the last call to it is unknown: it is not used any more."""


@dataclass(frozen=True, slots=True, eq=False)
class SequencePlace:
    """A sequence that is a request's now. `erase`: before anything else. `is_there`: its conversation is in it."""

    sequence: KvSequence
    key: str
    conversation: str | None
    size: int
    erase: bool
    is_there: bool


@dataclass(frozen=True, slots=True)
class Save:
    """What is worth saving. `tokens` None: the engine did not say how many."""

    number: int
    conversation: str
    tokens: int | None


class Sequences:
    """Of one run of one engine.

    In the order of a request: `on_request` (a place), `on_claimed` (nothing of anybody else's is in it), `on_ready`
    (its own conversation is, or nothing is), `on_done`. Any of them may be the last one before `on_done`.
    """

    def __init__(self, count: int, is_fresh: bool) -> None:
        """`is_fresh`: the engine has just started; otherwise the content of its sequences is unknown."""
        self._all = [KvSequence(number, is_foreign=not is_fresh) for number in range(count)]
        self._uses = 0

    @property
    def is_lost(self) -> bool:
        """Whether no sequence can be used any more."""
        return all(sequence.is_lost for sequence in self._all)

    def on_request(self, key: str, conversation: str | None, size: int) -> SequencePlace | None:
        """A place for a body of `size` bytes; `conversation` None: it goes on with nothing. None: all are in use.

        1. the conversation is there: the longest that is not longer than the request (a conversation grows), else
           the shortest
        2. an empty one
        3. the longest unused one; what another key left there is erased
        """
        free = [sequence for sequence in self._all if not sequence.is_busy and not sequence.is_lost]
        if not free:
            return None
        there = [sequence for sequence in free if conversation is not None and sequence.conversation == conversation]
        if there:
            chosen = min(there, key=lambda s: (s.size > size, abs(s.size - size)))  # 1
        else:
            chosen = min(free, key=lambda s: (s.key is not None or s.is_foreign, s.used))  # 2, 3
        chosen.is_busy = True
        self._uses += 1
        chosen.used = self._uses
        erase = chosen.is_foreign or chosen.key not in (None, key)
        return SequencePlace(chosen, key, conversation, size, erase, bool(there))

    def on_claimed(self, place: SequencePlace) -> None:
        """What had to be erased is erased. From now on the key's own content may be in it."""
        sequence = place.sequence
        sequence.key, sequence.is_foreign = place.key, False
        if not place.is_there:
            sequence.conversation, sequence.tokens = None, None

    def on_ready(self, place: SequencePlace) -> None:
        """The request is about to be sent."""
        place.sequence.conversation = place.conversation
        place.sequence.size = place.size
        place.sequence.tokens = None

    def on_done(self, place: SequencePlace, tokens: int | None) -> None:
        """The request is over; `tokens` are in the sequence now, if the engine reported it."""
        place.sequence.is_busy = False
        if tokens is not None:
            place.sequence.tokens = tokens

    def on_lost(self, place: SequencePlace) -> None:
        """The last call may still take effect."""
        place.sequence.is_lost = True
        place.sequence.conversation = None

    def on_stop(self) -> list[Save]:
        """The most recently used first; of a conversation that is there twice, the longest. One that is busy too: its
        request was cut off, and the engine saves when it has noticed.
        """
        found: dict[str, KvSequence] = {}
        for sequence in sorted(self._all, key=lambda sequence: -sequence.used):
            conversation = sequence.conversation
            if conversation is None:
                continue
            longest = found.setdefault(conversation, sequence)
            if sequence.size > longest.size:
                found[conversation] = sequence  # in the place of the more recent one
        return [Save(sequence.number, conversation, sequence.tokens) for conversation, sequence in found.items()]


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
