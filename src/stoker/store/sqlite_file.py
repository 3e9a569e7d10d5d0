"""SQLite files of Stoker's: private, each with one version of a schema, and set aside where they are beyond use."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_COMPANIONS = ("", "-wal", "-shm", "-journal")
_RUINED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_SHUT = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})


class UnusableDatabase(sqlite3.DatabaseError):
    """A SQLite file that is damaged, not Stoker's, or not of this version."""


@dataclass(frozen=True)
class Schema:
    version: int
    """`PRAGMA user_version` of a file with this schema. Zero: a new file."""
    tables: tuple[str, ...]
    """The statements that make it."""
    pragmas: tuple[str, ...]
    """What is set at each opening, and before the tables are made."""
    busy_wait: float
    """Seconds that a statement waits for another process's lock."""
    on_existing: Callable[[sqlite3.Connection], None] = lambda db: None
    """Called first with a file that has this version: checks it (raises UnusableDatabase), or adds what it lacks."""


def connect(path: Path, schema: Schema) -> sqlite3.Connection:
    """Opens the file, or makes it, 0600; what SQLite puts beside it inherits that. Raises sqlite3.Error or OSError; a
    file that is not Stoker's is as it was. Transactions are explicit: see `transaction`.
    """
    create_private(path)
    db = sqlite3.connect(path, timeout=schema.busy_wait, isolation_level=None, check_same_thread=False)
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        is_new = version == 0 and not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if not is_new:
            if version != schema.version:
                raise UnusableDatabase(f"its schema has version {version}, not {schema.version}")
            schema.on_existing(db)
        for pragma in schema.pragmas:
            db.execute(f"PRAGMA {pragma}").fetchall()
        if is_new:
            with transaction(db):
                for statement in (*schema.tables, f"PRAGMA user_version = {schema.version}"):
                    db.execute(statement)
    except BaseException:
        db.close()
        raise
    return db


def connect_or_replace(path: Path, schema: Schema, log: logging.Logger, lost: str) -> sqlite3.Connection:
    """As `connect`, but a file that is beyond use is set aside, and a new one made. `lost`: what that means, for the
    log.
    """
    try:
        return connect(path, schema)
    except (sqlite3.DatabaseError, OSError) as error:
        if not is_beyond_use(path, error):
            raise
        aside = set_aside(path)
        log.error("%s is unusable (%s): it was moved to %s; %s", path, error, aside.name, lost)
        return connect(path, schema)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # a full disk may have rolled it back already
            db.execute("ROLLBACK")
        raise


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
