"""Recent events for `/status`: swaps, exits, restarts, parks. In memory, bounded; the log has all of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

KEPT = 200
LENGTH = 300


class RecentEvents:
    """Newest last. `wall` gives Unix time."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def note(self, kind: str, serve: str, text: str) -> None:
        """`kind` is one word: `ready`, `failed`, `stopped`, `exited`, `restarted`, `parked`, `paused`, `resumed`,
        `adopted`, `moved`, `warned`, `sick`.
        """
        shortened = text if len(text) <= LENGTH else f"{text[: LENGTH - 1]}…"
        self._kept.append({"at": self._wall(), "kind": kind, "serve": serve, "text": shortened})

    def recent(self, limit: int) -> list[dict[str, Any]]:
        """Newest first."""
        return list(self._kept)[::-1][:limit]
