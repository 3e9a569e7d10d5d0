"""Swaps that ended, for GET /events and for explanations. In memory, bounded; the log has all of them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

import msgspec

from stoker.domain.events import Event, SwapEnded
from stoker.domain.swap import SwapReport

KEPT = 1000


class SwapHistory:
    """`wall` gives Unix time. Subscribes to the event bus."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._kept: deque[SwapReport] = deque(maxlen=KEPT)
        self.count = 0
        """Swaps since the start, those that are forgotten included."""

    def on_event(self, event: Event) -> None:
        if not isinstance(event, SwapEnded):
            return
        self.count += 1
        self._kept.append(msgspec.structs.replace(event.report, at=self._wall()))

    def last(self, most: int = KEPT) -> list[SwapReport]:
        """The oldest first."""
        return list(itertools.islice(self._kept, max(0, len(self._kept) - most), None))
