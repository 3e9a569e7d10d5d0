"""Events that are held back. Consecutive pieces of one block are joined: holding them costs no more than their text."""

from __future__ import annotations

from stoker.domain.answer import Event, Grew
from stoker.request.verify.text_buffer import TextBuffer


class HeldEvents:
    """`size`: characters of text held back."""

    __slots__ = ("_at", "_events", "_growth", "size")

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._at: int | None = None
        self._growth = TextBuffer()
        self.size = 0

    def add(self, event: Event) -> None:
        if isinstance(event, Grew):
            if event.at != self._at:
                self._join()
                self._at = event.at
            self._growth.add(event.text)
            self.size += len(event.text)
            return
        self._join()
        self._events.append(event)

    def release(self) -> list[Event]:
        """Empty the store and return its events in order."""
        self._join()
        events = self._events
        self.drop()
        return events

    def drop(self) -> None:
        self._events = []
        self._at = None
        self._growth.drop()
        self.size = 0

    def _join(self) -> None:
        if self._at is not None:
            self._events.append(Grew(self._at, self._growth.text()))
            self._growth.drop()
            self._at = None
