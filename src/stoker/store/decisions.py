"""The decision log: one record per request, at the cost of one append."""

from __future__ import annotations

import itertools
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.domain.decision import FAILURES, Decision
from stoker.domain.errors import StokerError
from stoker.store.database import VERSION
from stoker.store.refusal_sampling import RefusalSampling
from stoker.store.writer import BATCH, DecisionWriter

QUEUE = 4096
"""Records that may wait for the disk. What comes on top is dropped and counted."""

_log = logging.getLogger(__name__)
_FAILED = f"(status >= 500 OR outcome IN ({', '.join(map(repr, sorted(FAILURES)))}))"
"""`Decision.is_failed`, of a row."""
_decoder = msgspec.json.Decoder(Decision)


@dataclass(frozen=True)
class DecisionStatistics:
    """What became of the records. `failed` counts attempts to write, whose records are tried again."""

    kept: int
    """Records in the file."""
    written: int
    dropped: int
    """Will never be in the file: the queue was full, or the log was closed."""
    failed: int
    unrecorded: int = 0
    """Refusals that are only counted: see `store.refusal_sampling`."""
    problem: str = ""
    """Why the file cannot be written, and what to do; empty: it can."""


class DecisionLog:
    """Keeps decisions in one SQLite file with room for the newest `limit` records.

    A flood of refusals is summed up in a few of them: see `store.refusal_sampling`. A record is on disk 0.5 s after
    `record`, so a crash loses at most the last second. Until then, and for the newest few thousand, memory answers.
    The constructor touches no file: the writer thread does, and a disk that does not play along is its problem
    alone (logged, counted, retried). A record is never changed after `record`.
    """

    def __init__(
        self, path: Path, limit: int, now: Callable[[], float] = time.monotonic,
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        """`announce`: see `DecisionWriter`. It is called on another thread."""
        self._path = path
        self._refused = RefusalSampling(now)
        self._pending: deque[Decision] = deque()
        # The ring holds more than can be unsaved: a record is in one of ring and file at any time.
        self._ring: deque[Decision] = deque(maxlen=QUEUE + BATCH)
        self._room = QUEUE
        self._dropped = 0
        self._writer = DecisionWriter(path, limit, self._pending, announce=announce)
        self._stop = threading.Event()
        self._writing = threading.Thread(target=self._writer.run, args=(self._stop,), name="decisions", daemon=True)
        self._writing.start()

    def complete_with(self, complete: Callable[[Decision], Decision]) -> None:
        """`complete` is called with each record before it is written, on another thread. Memory keeps it as it was."""
        self._writer.complete_with(complete)

    def record(self, decision: Decision) -> None:
        """Keep a sealed decision. No lock, no system call, never blocks; call it from one thread."""
        if not self._refused.keeps(decision):
            return
        self._ring.append(decision)
        if len(self._pending) < self._room:
            self._pending.append(decision)
        else:
            self._dropped += 1

    def find(self, request_id: str) -> Decision | None:
        """The newest record with this id. If memory has none it reads the file: 1 ms for each 1,500 records kept."""
        for decision in reversed(list(self._ring)):
            if decision.id == request_id:
                return decision
        found = self._on_disk("WHERE id = ? ORDER BY seq DESC LIMIT 1", request_id)
        return found[0] if found else None

    def recent(self, limit: int) -> list[Decision]:
        """The newest `limit` records, newest first. Reads the file only for more than memory has."""
        limit = max(limit, 0)
        # The file first: what is written in between is then found twice, not never.
        older = self._on_disk("ORDER BY seq DESC LIMIT ?", limit) if limit > len(self._ring) else []
        newest = list(self._ring)[::-1]
        known = {(decision.id, decision.at) for decision in newest}
        return (newest + [decision for decision in older if (decision.id, decision.at) not in known])[:limit]

    def newest_failed(self, limit: int) -> list[Decision]:
        """As `recent`, of those for which `Decision.is_failed` holds."""
        in_memory = sum(one.is_failed for one in list(self._ring))
        # The file first, as in `recent`.
        older = self._on_disk(f"WHERE {_FAILED} ORDER BY seq DESC LIMIT ?", limit) if limit > in_memory else []
        found = [one for one in list(self._ring)[::-1] if one.is_failed][:limit]
        known = {(one.id, one.at) for one in found}
        return (found + [one for one in older if (one.id, one.at) not in known])[:limit]

    def overlapping(self, at: float, limit: int) -> list[Decision]:
        """The newest `limit` of those in memory that ended after `at`, the newest first. From any thread."""
        found: list[Decision] = []
        for one in reversed(list(self._ring)):
            if len(found) == limit or one.at + (one.latency or 0.0) <= at:
                break  # they were recorded when they ended, so all others ended earlier
            found.append(one)
        return found

    def in_memory(self, limit: int) -> list[Decision]:
        """The newest of those that need no file, the oldest first."""
        return list(itertools.islice(self._ring, max(0, len(self._ring) - limit), None))

    def newest(self) -> Decision | None:
        """The last record in memory; None: there is none."""
        return self._ring[-1] if self._ring else None

    def after(self, seen: Decision | None) -> list[Decision] | None:
        """What was recorded after `seen`, the oldest first; None: `seen` is no longer in memory. `seen` None: all that
        is in memory. Call it from the thread that calls `record`.
        """
        found: list[Decision] = []
        for decision in reversed(self._ring):
            if decision is seen:
                return found[::-1]
            found.append(decision)
        return found[::-1] if seen is None else None

    def statistics(self) -> DecisionStatistics:
        writer = self._writer
        dropped = self._dropped + writer.discarded
        unrecorded = self._refused.unrecorded
        return DecisionStatistics(writer.kept, writer.written, dropped, writer.failed, unrecorded, writer.problem)

    def close(self, timeout: float = 2.0) -> None:
        """Write what is left and close the file. Blocks at most `timeout` seconds; what then remains is reported."""
        self._room = 0
        self._stop.set()
        self._writing.join(timeout)
        if unsaved := self._writer.unsaved:
            _log.error("the newest decisions could not be written to %s: %d lost", self._path, unsaved)

    def _on_disk(self, where: str, value: str | int) -> list[Decision]:
        try:
            return _read(self._path, where, value, wait=0.1)
        except StokerError as error:
            _log.warning("only the newest decisions are shown: %s", error.message)
            return []


def read_recent(path: Path, limit: int) -> list[Decision]:
    """The newest `limit` records of a log that this process does not own, newest first. No file: none.

    Raises StokerError `decisions_unreadable`. A running `up` is not disturbed; its last half second may be missing.
    """
    return _read(path, "ORDER BY seq DESC LIMIT ?", max(limit, 0), wait=1.0)


def read_newest_failed(path: Path) -> Decision | None:
    """The newest record of a failed request; otherwise like `read_recent`."""
    found = _read(path, f"WHERE {_FAILED} ORDER BY seq DESC LIMIT ?", 1, wait=1.0)
    return found[0] if found else None


def read_one(path: Path, request_id: str) -> Decision | None:
    """The newest record with this id; otherwise like `read_recent`."""
    found = _read(path, "WHERE id = ? ORDER BY seq DESC LIMIT 1", request_id, wait=1.0)
    return found[0] if found else None


def _read(path: Path, where: str, value: str | int, wait: float) -> list[Decision]:
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=wait)) as db:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            if version == 0:  # created a moment ago
                return []
            if version != VERSION:
                raise sqlite3.DatabaseError(f"its schema has version {version}, this program reads {VERSION}")
            rows = db.execute(f"SELECT record FROM decisions {where}", (value,)).fetchall()  # noqa: S608 - our words
        return [_decoder.decode(row[0]) for row in rows]
    except (sqlite3.Error, msgspec.DecodeError, UnicodeEncodeError) as error:
        raise StokerError(
            f"the decision log {path} cannot be read ({error}); a running `stoker up` moves a broken one aside at its "
            "next start, and `sqlite3` can look into it",
            code="decisions_unreadable",
        ) from error
