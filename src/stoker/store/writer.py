"""The thread that writes decisions to disk. Problems of the disk never affect requests."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

from stoker.domain.decision import Decision
from stoker.domain.figures import counted
from stoker.store.database import Database, Row
from stoker.store.files.remedies import remedy
from stoker.store.sqlite_file import is_beyond_use, set_aside

INTERVAL = 0.25
"""Seconds between two checks of the queue: with the write itself, a record is on disk 0.5 s after its arrival."""
RETRY_CAP = 5.0
"""Longest pause between two attempts after failures."""
BATCH = 256
"""Records per transaction: encoding them holds the interpreter for less than half a millisecond."""
ASIDE_PAUSE = 60.0
"""Seconds between two files moved aside, so that a bad disk does not fill itself with them."""

_OUR_FAULT = (sqlite3.ProgrammingError, sqlite3.IntegrityError, sqlite3.DataError, sqlite3.NotSupportedError)
_log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()


def _as_it_is(decision: Decision) -> Decision:
    return decision


class DecisionWriter:
    """Empties `pending` into the file. All methods run on one thread; the figures may be read from any.

    written    records that are on disk, or were before the limit removed them
    discarded  records that could not be encoded or do not fit the schema
    failed     attempts to open or write that failed; their records are tried again
    kept       records in the file now
    """

    def __init__(
        self, path: Path, limit: int, pending: deque[Decision], now: Callable[[], float] = time.monotonic,
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        """`announce` gets a line for whoever started the program: the log may lie on the same disk."""
        self._path = path
        self._limit = limit
        self._pending = pending
        self._now = now
        self._in_hand: list[Row] = []
        self._database: Database | None = None
        self._last_aside = float("-inf")
        self._announce = announce
        self._complete: Callable[[Decision], Decision] = _as_it_is
        """Adds to a record what is only known, or only wanted, once it is written. It is called on this thread."""
        self.problem = ""
        """Why the file cannot be written, and what to do; empty: it can."""
        self.written = self.discarded = self.failed = self.kept = 0

    def complete_with(self, complete: Callable[[Decision], Decision]) -> None:
        """`complete` is called with each record before it is written."""
        self._complete = complete

    def run(self, stop: threading.Event) -> None:
        """Flush until `stop` is set, then once more, and close the file."""
        pause = INTERVAL if self.flush() else 2 * INTERVAL
        while not stop.wait(pause):
            pause = INTERVAL if self.flush() else min(2 * pause, RETRY_CAP)
        self.flush()
        self.close()

    @property
    def unsaved(self) -> int:
        return len(self._in_hand) + len(self._pending)

    def flush(self) -> bool:
        """Write all that is pending. False if the disk did not take it: nothing is lost, call again later."""
        try:
            self._write_all()
        except Exception as error:  # whatever happens, this thread lives on
            self.failed += 1
            if isinstance(error, sqlite3.DatabaseError | OSError) and not isinstance(error, _OUR_FAULT):
                return self._recover(error)
            # These records would fail for ever, and hold up all that come after them.
            _log.exception("%s discarded: they do not fit into %s", counted(len(self._in_hand), "decision"), self._path)
            self.discarded += len(self._in_hand)
            self._in_hand = []
            return False
        if self.problem:
            self.problem = ""
            self._tell(logging.WARNING, f"the decision log {self._path} can be written again")
        return True

    def _write_all(self) -> None:
        database = self._database
        if database is not None and not self.unsaved:
            return
        if database is not None and database.is_replaced():
            _log.warning("the decision log %s was removed or replaced; a new one is started", self._path)
            self._database = None
            database.leave()
            database = None
        if database is None:
            database = self._database = Database(self._path)
            self.kept = database.write((), self._limit)
        while self._in_hand or self._pending:
            if not self._in_hand:
                self._in_hand = self._encode()
            self.kept = database.write(self._in_hand, self._limit)
            self.written += len(self._in_hand)
            self._in_hand = []

    def _encode(self) -> list[Row]:
        rows: list[Row] = []
        for _ in range(min(BATCH, len(self._pending))):
            decision = self._pending.popleft()
            try:
                decision = self._complete(decision)
            except Exception:  # a record that says less is better than none
                _log.exception("what request %s waited for is not kept", decision.id)
            try:
                record = _encoder.encode(decision).decode()
                decision.id.encode()
            except (UnicodeEncodeError, TypeError) as error:
                # One record that cannot be written down must not hold up the others for ever.
                self.discarded += 1
                _log.error("the decision of one request was discarded, it is not valid text: %s", type(error).__name__)
                continue
            rows.append((decision.id, decision.at, decision.serve, decision.status, decision.outcome, record))
        return rows

    def _recover(self, error: sqlite3.DatabaseError | OSError) -> bool:
        """After a failure: a file beyond use is moved aside, at most one in a while; anything else is retried."""
        self.close()
        now = self._now()
        if is_beyond_use(self._path, error) and now - self._last_aside >= ASIDE_PAUSE:
            self._last_aside = now
            try:
                aside = set_aside(self._path)
            except OSError as refusal:
                error = refusal
            else:
                _log.error(
                    "the decision log %s is unusable (%s); it was moved to %s and a new one is started: "
                    "look at the old one with sqlite3, or delete it",
                    self._path, error, aside.name,
                )  # fmt: skip
                return self.flush()
        if not self.problem:
            self.problem = f"{self._path} cannot be written ({error}): {remedy(error, self._path.parent)}"
            waits = "requests continue, and the newest decisions wait in memory until it can be written"
            self._tell(logging.ERROR, f"the decision log {self.problem}; {waits}")
        return False

    def _tell(self, level: int, text: str) -> None:
        _log.log(level, "%s", text, extra={"is_announced": True})
        with contextlib.suppress(OSError):  # nobody reads what is announced
            self._announce(f"stoker: {text}")

    def close(self) -> None:
        """Close the file. The next `flush` opens it again."""
        database, self._database = self._database, None
        if database is not None:
            try:
                database.close()
            except sqlite3.Error as error:
                _log.warning("the decision log %s did not close cleanly: %s", self._path, error)
