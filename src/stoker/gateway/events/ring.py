"""The last events with their ids. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

MAX_EVENTS = 4096
MAX_BYTES = 2 << 20
_DIGITS = 15


class _Kept(NamedTuple):
    topic: str
    frame: bytes


class EventRing:
    """One sequence of numbers for all topics. An id is `PROCESS-NUMBER`, so that ids of other processes are noticed."""

    def __init__(self, process: str, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self.last = 0
        """The number of the newest event; 0: there is none."""
        self._process = process
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    def add(self, topic: str, kind: str, data: Any) -> None:
        """Encode an event and keep it, and forget the oldest ones beyond the limits."""
        self.last += 1
        kept = _Kept(topic, frame(kind, data, self.id))
        self._kept.append(kept)
        self._bytes += len(kept.frame)
        while len(self._kept) > self._max_events or self._bytes > self._max_bytes:
            self._bytes -= len(self._kept.popleft().frame)

    @property
    def id(self) -> str:
        """Of the newest event."""
        return f"{self._process}-{self.last}"

    def number_of(self, id: str) -> int | None:
        """The number of an id of this process; None: it is none."""
        process, _, digits = id.rpartition("-")
        if process != self._process or not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS:
            return None
        number = int(digits)
        return number if number <= self.last else None

    def after(self, number: int, topics: Collection[str]) -> bytes | None:
        """The events of these topics after this one; None: the ring does not hold all of them any more."""
        behind = self.last - number
        if behind > len(self._kept):
            return None
        start = len(self._kept) - behind
        found = (self._kept[place] for place in range(start, len(self._kept)))
        return b"".join(kept.frame for kept in found if kept.topic in topics)


def frame(kind: str, data: Any, id: str = "") -> bytes:
    """One server-sent event. Without an id, a reader keeps the id that it had."""
    first = f"id: {id}\n" if id else ""
    return b"%bevent: %b\ndata: %b\n\n" % (first.encode(), kind.encode(), msgspec.json.encode(data))
