"""GET /events: the readers, and the one task that feeds them.

The task exists only while there is a reader. It polls each topic that is read, puts what happened into the ring,
and writes to each reader what the ring has after its position. So an event is encoded once, and a reader needs no
buffer of its own beside its connection's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.access.caller import Caller, require
from stoker.domain.errors import CapacityError, StokerError
from stoker.domain.key import Scope
from stoker.exchange.request_context import RequestContext
from stoker.gateway.events.ring import EventRing, frame
from stoker.gateway.events.topics import Topic
from stoker.gateway.events.wanted import DEFAULT, LOGS, wanted_topics
from stoker.request.accept.connection import HttpExchange
from stoker.request.relay.reply import Reply

log = logging.getLogger("stoker.front")
MAX_READERS = 128
"""Readers at once."""
TICK = 0.1
"""Seconds between two writes to a reader."""
CHECK_EVERY = 1.0
"""Seconds between two looks whether a reader may still read: keys are made, disabled and deleted while it does."""
RETRY = 2000
"""Milliseconds that a browser waits until it connects again."""
_HEADERS = [
    (b"content-type", b"text/event-stream"), (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    ping_every: float = 15.0
    """Of silence."""
    unread_limit: float = 30.0
    """For which a reader may leave what it got unread; then it is cut."""


@dataclass(slots=True, eq=False)
class _Reader:
    exchange: HttpExchange
    reply: Reply
    topics: tuple[str, ...]
    after: int | None
    """The number of the last event that it knows; None: it knows none that counts."""
    admit: Callable[[], Caller]
    """Who reads, by the keys of now. Raises StokerError."""
    ended: asyncio.Future[bool]
    """True: in order; False: it was cut."""
    last_written_at: float = 0.0
    """When it was last written to."""
    checked_at: float = 0.0

    def may_read(self) -> bool:
        try:
            caller = self.admit()
            for name in self.topics:
                require(caller, Scope.ADMIN if name.startswith(LOGS) else Scope.OBSERVE)
        except StokerError:
            return False
        return True

    def end(self, in_order: bool = True) -> None:
        if not self.ended.done():
            self.ended.set_result(in_order)


@dataclass(slots=True, eq=False)
class _TopicState:
    """A topic that was read at least once in this process."""

    topic: Topic
    since: int
    """The ring has its events after this number."""
    due: float = field(default=0.0)


class EventStreams:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        topics: Mapping[str, Topic],
        log_of: Callable[[str, Caller], Topic],
        is_ending: Callable[[], bool],
        process: str,
        patience: Patience = Patience(),
    ) -> None:
        """`log_of(serve, caller)`: raises ClientError 404. `is_ending()`: Stoker shuts down, so the streams end.
        `process`: a word that tells this process from others.
        """
        self._topics = topics
        self._log_of = log_of
        self._is_ending = is_ending
        self._patience = patience
        self._ring = EventRing(process)
        self._loop = asyncio.get_running_loop()
        self._topics_read: dict[str, _TopicState] = {}
        self._joining: list[_Reader] = []
        self._readers: list[_Reader] = []
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    @property
    def count(self) -> int:
        """Of readers."""
        return len(self._readers) + len(self._joining)

    @property
    def is_idle(self) -> bool:
        """Nobody reads, and nothing is polled."""
        return self._task is None

    async def handle(self, context: RequestContext, admit: Callable[[], Caller], query: Mapping[str, str]) -> None:
        """Send events until the client leaves, may read no longer, or Stoker shuts down. `admit` tells who asks by the
        keys of the moment, or raises StokerError.

        Raises ClientError 400 (topic), 403 (scope), 404 (serve), CapacityError 503 if too many read. On cancel the
        caller breaks the reply off.
        """
        caller = admit()
        require(caller, Scope.OBSERVE)
        names = wanted_topics(query.get("topics", DEFAULT))
        for name in names:
            if name not in self._topics_read:
                self._topics_read[name] = _TopicState(self._find(name, caller), -1)
            elif name.startswith(LOGS):
                self._find(name, caller)
        if self.count >= MAX_READERS:
            raise CapacityError(f"{MAX_READERS} pages and programs read events: close one", code="too_many_streams")
        known = self._ring.number_of(context.exchange.headers.get(b"last-event-id", b"").decode("latin-1"))
        reader = _Reader(context.exchange, context.reply, tuple(names), known, admit, self._loop.create_future())
        reader.exchange.on_lost = reader.end
        self._joining.append(reader)
        self._start()
        try:
            if await reader.ended:
                context.reply.finish()
            else:
                context.reply.break_off()
        finally:
            self._forget(reader)

    def _find(self, name: str, caller: Caller) -> Topic:
        if not name.startswith(LOGS):
            return self._topics[name]
        require(caller, Scope.ADMIN)
        return self._log_of(name[len(LOGS) :], caller)

    def _forget(self, reader: _Reader) -> None:
        for group in (self._joining, self._readers):
            if reader in group:
                group.remove(reader)
        if not self.count:
            self._wake.set()

    # -- the task ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._feed(), name="events")
        self._wake.set()

    async def _feed(self) -> None:
        try:
            while self.count and not self._is_ending():
                self._wake.clear()
                await self._poll_due()
                await self._admit()
                self._deliver()
                await self._pause()
            self._end_all(in_order=True)
        except Exception:
            log.exception("the events of /events broke inside Stoker")
            self._end_all(in_order=False)
        finally:
            self._task = None

    def _end_all(self, in_order: bool) -> None:
        for reader in (*self._joining, *self._readers):
            reader.end(in_order)

    async def _pause(self) -> None:
        timer = self._loop.call_later(TICK, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    async def _poll_due(self) -> None:
        """Poll the topics that are read and due."""
        now = self._loop.time()
        wanted = {name for reader in self._readers for name in reader.topics}
        for name, state in tuple(self._topics_read.items()):
            if name in wanted and now >= state.due:
                await self._publish(name)

    async def _publish(self, name: str) -> None:
        state = self._topics_read[name]
        state.due = self._loop.time() + state.topic.every
        try:
            events = await state.topic.poll()
            if events is None:
                self._ring.add(name, "snapshot", await self._snapshot(name))
                return
        except StokerError as error:
            log.warning("events of %s: %s", name, error.message)
            return
        for event in events:
            self._ring.add(name, event.kind, event.data)

    async def _snapshot(self, name: str) -> dict[str, Any]:
        return {"topic": name, **await self._topics_read[name].topic.snapshot()}

    async def _admit(self) -> None:
        while self._joining:
            reader = self._joining[0]
            try:
                first = await self._first_bytes(reader)
            except StokerError as error:
                if not reader.ended.done():
                    reader.ended.set_exception(error)
            else:
                if not reader.ended.done():
                    self._start_reader(reader, first)
            if reader in self._joining:
                self._joining.remove(reader)

    def _start_reader(self, reader: _Reader, first: bytes) -> None:
        reader.exchange.close_after()  # the request may have a body, which is not read
        reader.reply.commit(200, _HEADERS)
        reader.exchange.write(first)
        reader.last_written_at = reader.checked_at = self._loop.time()
        self._readers.append(reader)

    async def _first_bytes(self, reader: _Reader) -> bytes:
        """What it missed, and a snapshot of each topic of which the ring cannot say that. The last one has the id: who
        got only some of the snapshots gets them all again.
        """
        for name in reader.topics:
            if self._topics_read[name].since >= 0:
                await self._publish(name)
        known = -1 if reader.after is None else reader.after
        missed = self._ring.after(known, reader.topics) if known >= 0 else None
        fresh = [name for name in reader.topics if missed is None or not 0 <= self._topics_read[name].since <= known]
        parts = [b"retry: %d\n\n" % RETRY]
        if missed is not None:
            resumed = set(reader.topics).difference(fresh)
            parts.append(self._ring.after(known, resumed) or b"")
        for name in fresh:
            document = await self._snapshot(name)
            if self._topics_read[name].since < 0:
                self._topics_read[name].since = self._ring.last
            parts.append(frame("snapshot", document, self._ring.id if name == fresh[-1] else ""))
        reader.after = self._ring.last
        return b"".join(parts)

    def _deliver(self) -> None:
        now = self._loop.time()
        joined: dict[tuple[int, tuple[str, ...]], bytes | None] = {}
        for reader in self._readers:
            exchange, position = reader.exchange, reader.after or 0
            if now - reader.checked_at >= CHECK_EVERY:
                reader.checked_at = now
                if not reader.may_read():
                    reader.end()  # it learns why when it comes back
            if reader.ended.done():
                continue
            if exchange.is_paused:
                if now - reader.last_written_at > self._patience.unread_limit:
                    reader.end(in_order=False)
                continue
            key = (position, reader.topics)
            if key not in joined:
                joined[key] = self._ring.after(position, reader.topics)
            missed = joined[key]
            if missed is None:
                reader.end()  # it was too slow; it comes back for a snapshot
                continue
            reader.after = self._ring.last
            if missed or now - reader.last_written_at >= self._patience.ping_every:
                exchange.write(missed or b": ping\n\n")
                reader.last_written_at = now
