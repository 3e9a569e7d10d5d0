"""Swaps that ended, for GET /events and for explanations. In memory, bounded; the log has all of them."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

from stoker.domain.events import Event, SwapEnded
from stoker.domain.swap import EndedSwap

KEPT = 1000


class SwapHistory:
    """`wall` gives Unix time. Subscribes to the event bus."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._kept: deque[EndedSwap] = deque(maxlen=KEPT)
        self.count = 0
        """Swaps since the start, those that are forgotten included."""

    def on_event(self, event: Event) -> None:
        if not isinstance(event, SwapEnded):
            return
        report = event.report
        self.count += 1
        self._kept.append(
            EndedSwap(
                self._wall(), report.swap_id, report.serve, report.slot, report.victims, report.outcome,
                report.phases, report.start_kind, report.error or None, report.key or None,
            )
        )  # fmt: skip

    def last(self, most: int = KEPT) -> list[EndedSwap]:
        """The oldest first."""
        return list(itertools.islice(self._kept, max(0, len(self._kept) - most), None))
