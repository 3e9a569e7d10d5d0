"""The decision log's SQLite file: its schema, its limit, and when it is beyond use."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

VERSION = 1
"""`PRAGMA user_version` of a file with this schema. Zero: a new file."""

BUSY_WAIT = 0.5
"""Seconds that a write waits for another process's lock; well below what `close` may take."""

Row = tuple[str, float, str, int, str, str]
"""id, at, serve, status, outcome, and the whole record as JSON."""

# No index on `id`: ids are random, so each batch would rewrite most of it: 5 of the 8 microseconds of CPU per record.
# It would only save a few milliseconds when a record is looked up that is no longer in memory.
_SCHEMA = (
    "CREATE TABLE decisions (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, at REAL NOT NULL, serve TEXT NOT NULL,"
    " status INTEGER NOT NULL, outcome TEXT NOT NULL, record TEXT NOT NULL)",
    f"PRAGMA user_version = {VERSION}",
)
_INSERT = "INSERT INTO decisions (id, at, serve, status, outcome, record) VALUES (?, ?, ?, ?, ?, ?)"
_COMPANIONS = ("", "-wal", "-shm", "-journal")
_RUINED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SHUT = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})


class UnusableDatabase(sqlite3.DatabaseError):
    """A SQLite file that is damaged, not Stoker's, or not of this version."""


class Database:
    """One writing connection. Any call may raise sqlite3.Error or OSError; the file is then as before the call.

    The file is created 0600, and what SQLite puts beside it inherits that. One thread uses an instance.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        create_private(path)
        # An explicit BEGIN is clearer than the driver's own idea of when a transaction starts.
        self._db = sqlite3.connect(path, timeout=BUSY_WAIT, isolation_level=None)
        try:
            self._prepare()
            self._inode = os.stat(path).st_ino
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        is_new = not self._is_ours()  # before the first change: a file that is not Stoker's stays as it is
        # NORMAL: a killed process loses nothing that was committed; a power cut may lose the last commits.
        for pragma in (
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "journal_size_limit = 4194304",
            "cache_size = -256",
        ):
            self._db.execute(f"PRAGMA {pragma}").fetchall()
        if is_new:
            self._transact(list(_SCHEMA))

    def _is_ours(self) -> bool:
        """False for a new file. Raises UnusableDatabase."""
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version == 0 and not self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            return False
        if version != VERSION:
            raise UnusableDatabase(f"its schema has version {version}, not {VERSION}")
        finding = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if finding != "ok":
            raise UnusableDatabase(f"its integrity check says: {finding}")
        try:
            self._db.execute("SELECT seq, id, at, serve, status, outcome, record FROM decisions LIMIT 0").fetchall()
        except sqlite3.OperationalError as error:
            raise UnusableDatabase(str(error)) from error
        return True

    def write(self, rows: Sequence[Row], limit: int) -> int:
        """Append `rows` and delete the oldest beyond `limit`, in one transaction. Returns how many are kept."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_INSERT, rows)
            # Only the oldest are ever deleted, so `seq` has no gaps and the newest tells which ones are too old.
            self._db.execute("DELETE FROM decisions WHERE seq <= (SELECT max(seq) FROM decisions) - ?", (limit,))
            self._db.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise
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

    def _transact(self, statements: list[str]) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for statement in statements:
                self._db.execute(statement)
            self._db.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise

    def _rollback(self) -> None:
        if self._db.in_transaction:  # a full disk may have rolled it back already
            self._db.execute("ROLLBACK")


def is_beyond_use(path: Path, error: Exception) -> bool:
    """Whether retrying cannot help: the file is damaged, is not Stoker's, or may not be written.

    1. SQLite reports damage or no database, or the schema is another one: yes
    2. it could not be opened or written: only if the file itself is the reason. (Too many open files, or a
       parent directory that does not exist yet, look the same to SQLite and pass.)
    3. locked, disk full, input or output error: no, try again
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, UnusableDatabase) or code in _RUINED:
        return True  # 1
    if code in _SHUT or isinstance(error, PermissionError | IsADirectoryError):
        return os.path.lexists(path) and not (path.is_file() and os.access(path, os.R_OK | os.W_OK))  # 2
    return False  # 3


def set_aside(path: Path) -> Path:
    """Rename the file and what SQLite keeps beside it to `NAME.broken-UTC`. Raises OSError if it cannot."""
    name = f"{path.name}.broken-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    number = 1
    while os.path.lexists(aside := path.with_name(name if number == 1 else f"{name}-{number}")):
        number += 1
    for suffix in _COMPANIONS:
        companion = path.with_name(path.name + suffix)
        if os.path.lexists(companion):
            companion.rename(aside.with_name(aside.name + suffix))
    return aside


def create_private(path: Path) -> None:
    # An existing file is never opened here: closing it would drop the locks that SQLite holds on it in this process.
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    else:
        if stat.S_ISREG(mode) and mode & 0o077:
            os.chmod(path, 0o600)
