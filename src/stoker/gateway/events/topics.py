"""What each topic reads. A topic is polled only while somebody reads it, and remembers what its last poll found.

No part of Stoker reports to a topic, so a request costs the same whether anybody watches or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from stoker.domain.decision import Decision
from stoker.domain.merge_patch import NoPatch, merge_patch
from stoker.store.decisions import DecisionLog
from stoker.store.results import Results
from stoker.store.swap_history import SwapHistory

SNAPSHOT_ENTRIES = 50
"""Entries of a snapshot."""
CLOCKS = frozenset({"uptime", "elapsed", "drain_wait", "backoff", "evict_costs", "retry_in", "watched_for"})
"""Fields of /status that change by themselves. On their own they are sent once a second."""
CLOCKS_EVERY = 1.0
"""Seconds."""


class TopicEvent(NamedTuple):
    """One event, without its id."""

    kind: str
    data: Any


class Topic(Protocol):
    """All methods belong to one task."""

    name: str
    every: float
    """Seconds between two polls."""

    async def poll(self) -> list[TopicEvent] | None:
        """What happened since the last call, or since `snapshot`. None: that is not known, so readers need a new
        snapshot. Raises StokerError.
        """

    async def snapshot(self) -> dict[str, Any]:
        """What the events up to the last `poll` have led to; before the first `poll`, what is now."""


class DocumentTopic:
    """A document, and what changes in it: that of /status, or the requests in flight."""

    every = 0.25

    def __init__(self, name: str, document: Callable[[], Mapping[str, Any]], now: Callable[[], float]) -> None:
        self.name = name
        self._document = document
        self._now = now
        self._encoded = b""
        self._last: dict[str, Any] = {}
        self._sent_at = 0.0

    async def poll(self) -> list[TopicEvent] | None:
        encoded = msgspec.json.encode(self._document())
        if encoded == self._encoded:
            return []
        document = msgspec.json.decode(encoded)
        try:
            patch = merge_patch(self._last, document)
        except NoPatch:
            self._keep(encoded, document)
            return None
        if _only_clocks(patch) and self._now() - self._sent_at < CLOCKS_EVERY:
            return []
        self._keep(encoded, document)
        return [TopicEvent("delta", {"topic": self.name, "patch": patch})]

    async def snapshot(self) -> dict[str, Any]:
        if not self._last:
            encoded = msgspec.json.encode(self._document())
            self._keep(encoded, msgspec.json.decode(encoded))
        return self._last

    def _keep(self, encoded: bytes, document: dict[str, Any]) -> None:
        self._encoded, self._last, self._sent_at = encoded, document, self._now()


def _only_clocks(patch: Mapping[str, Any]) -> bool:
    changes = ((name, change) for name, change in patch.items() if name not in CLOCKS)
    return all(isinstance(change, dict) and _only_clocks(change) for _, change in changes)


class SwapTopic:
    """The swaps that ended."""

    name, every = "swaps", 0.1

    def __init__(self, history: SwapHistory) -> None:
        self._history = history
        self._seen = 0

    async def poll(self) -> list[TopicEvent] | None:
        new, self._seen = self._history.count - self._seen, self._history.count
        found = self._history.last(new)
        return [TopicEvent("swap", one) for one in found] if len(found) == new else None

    async def snapshot(self) -> dict[str, Any]:
        """The newest first."""
        self._seen = self._history.count
        return {"swaps": self._history.last(SNAPSHOT_ENTRIES)[::-1]}


class DecisionTopic:
    """The records of requests, as they end."""

    name, every = "decisions", 0.1

    def __init__(self, log: DecisionLog) -> None:
        self._log = log
        self._last: Decision | None = None

    async def poll(self) -> list[TopicEvent] | None:
        new = self._log.after(self._last)
        if new:
            self._last = new[-1]
        return None if new is None else [TopicEvent("decision", one) for one in new]

    async def snapshot(self) -> dict[str, Any]:
        """The newest first."""
        found = self._log.recent(SNAPSHOT_ENTRIES)
        self._last = self._log.newest()
        return {"decisions": found}


class ResultTopic:
    """The results of benchmarks, suites, gates and canaries, as they are written, by whatever process."""

    name, every = "results", 1.0

    def __init__(self, state: Path) -> None:
        self._results = Results(state)
        self._changed_at = -1
        self._known: set[str] = set()
        self._entries: list[dict[str, Any]] = []

    async def poll(self) -> list[TopicEvent] | None:
        return await asyncio.to_thread(self._read_new)

    async def snapshot(self) -> dict[str, Any]:
        """The newest first."""
        if self._changed_at < 0:
            await self.poll()
        return {"results": self._entries[:SNAPSHOT_ENTRIES]}

    def _read_new(self) -> list[TopicEvent]:
        changed_at = self._directory_changed_at()
        if changed_at == self._changed_at:
            return []
        self._results.sync()
        self._entries = [one._asdict() for one in self._results.select(limit=5000)]
        new = [one for one in self._entries[::-1] if one["id"] not in self._known]
        self._known = {one["id"] for one in self._entries}
        self._changed_at = changed_at
        return [TopicEvent("result", one) for one in new]

    def _directory_changed_at(self) -> int:
        """Nanoseconds; 0: there is no result yet."""
        try:
            return self._results.directory.stat().st_mtime_ns
        except OSError:
            return 0
