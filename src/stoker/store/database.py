"""The decision log's SQLite file: its schema and its limit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from stoker.store.sqlite_file import Schema, UnusableDatabase, connect, transaction

VERSION = 1
"""`PRAGMA user_version` of a file with this schema. Zero: a new file."""

BUSY_WAIT = 0.5
"""Seconds that a write waits for another process's lock; well below what `close` may take."""

Row = tuple[str, float, str, int, str, str]
"""id, at, serve, status, outcome, and the whole record as JSON."""


def _check(db: sqlite3.Connection) -> None:
    finding = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise UnusableDatabase(f"its integrity check says: {finding}")
    try:
        db.execute("SELECT seq, id, at, serve, status, outcome, record FROM decisions LIMIT 0").fetchall()
    except sqlite3.OperationalError as error:
        raise UnusableDatabase(str(error)) from error


# No index on `id`: ids are random, so each batch would rewrite most of it: 5 of the 8 microseconds of CPU per record.
# It would only save a few milliseconds when a record is looked up that is no longer in memory.
SCHEMA = Schema(
    VERSION,
    (
        "CREATE TABLE decisions (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, at REAL NOT NULL, serve TEXT NOT NULL,"
        " status INTEGER NOT NULL, outcome TEXT NOT NULL, record TEXT NOT NULL)",
    ),
    # NORMAL: a killed process loses nothing that was committed; a power cut may lose the last commits.
    ("journal_mode = WAL", "synchronous = NORMAL", "journal_size_limit = 4194304", "cache_size = -256"),
    BUSY_WAIT,
    _check,
)
_INSERT = "INSERT INTO decisions (id, at, serve, status, outcome, record) VALUES (?, ?, ?, ?, ?, ?)"


class Database:
    """One writing connection. Any call may raise sqlite3.Error or OSError; the file is then as before the call.

    One thread uses an instance.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = connect(path, SCHEMA)
        try:
            self._inode = os.stat(path).st_ino
        except BaseException:
            self._db.close()
            raise

    def write(self, rows: Sequence[Row], limit: int) -> int:
        """Append `rows` and delete the oldest beyond `limit`, in one transaction. Returns how many are kept."""
        with transaction(self._db):
            self._db.executemany(_INSERT, rows)
            # Only the oldest are ever deleted, so `seq` has no gaps and the newest tells which ones are too old.
            self._db.execute("DELETE FROM decisions WHERE seq <= (SELECT max(seq) FROM decisions) - ?", (limit,))
        return self.kept()

    def kept(self) -> int:
        oldest, newest = self._db.execute(
            "SELECT (SELECT min(seq) FROM decisions), (SELECT max(seq) FROM decisions)"
        ).fetchone()
        return 0 if newest is None else int(newest) - int(oldest) + 1

    def is_replaced(self) -> bool:
        """Whether the path no longer leads to the open file: SQLite itself would go on writing into the void."""
        try:
            return os.stat(self.path).st_ino != self._inode
        except FileNotFoundError:
            return True

    def leave(self) -> None:
        """Close after `is_replaced`. SQLite would leave its log behind, and the new file would absorb it."""
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._db.close()

    def close(self) -> None:
        self._db.close()
