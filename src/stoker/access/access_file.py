"""`STATE/access.db`: keys that were made at run time, overrides, what limits have counted, and usage by the hour.

A reply to an operator is sent only when its change is on disk. Counters and usage are written every second, so that a
crash loses at most that. The file holds no key, no prompt and no reply. One thread uses it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stoker.domain.runtime_key import RuntimeKey, SettingsOverride
from stoker.store.sqlite_file import Schema, connect_or_replace, transaction

log = logging.getLogger("stoker.access")

VERSION = 1
BUSY_WAIT = 2.0
USAGE_COLUMNS = (
    "requests", "failed", "input", "cached", "output", "reasoning", "cost", "accelerator_seconds", "swap_seconds",
    "ttft_sum", "ttft_count", "decode_tokens", "decode_seconds", "audio_seconds", "characters", "images",
    "cache_written", "joules", "metered_tokens",
)  # fmt: skip
"""The amounts of one row of usage, all additive. `metered_tokens`: those of `output` whose energy is in `joules`. New
ones go to the end: files get them as columns when they are opened."""


def _add_columns(db: sqlite3.Connection) -> None:
    """Those that a file of an earlier version lacks."""
    known = {row[1] for row in db.execute("PRAGMA table_info(usage)")}
    for name in USAGE_COLUMNS:
        if name not in known:
            db.execute(f"ALTER TABLE usage ADD COLUMN {name} REAL NOT NULL DEFAULT 0")


_SCHEMA = Schema(
    VERSION,
    (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL)",
        "CREATE TABLE keys (name TEXT PRIMARY KEY, record TEXT NOT NULL)",
        "CREATE TABLE overrides (kind TEXT, name TEXT, record TEXT NOT NULL, PRIMARY KEY (kind, name))",
        "CREATE TABLE counters (owner TEXT, setting TEXT, start REAL NOT NULL, used REAL NOT NULL,"
        " PRIMARY KEY (owner, setting)) WITHOUT ROWID",
        "CREATE TABLE usage (hour INTEGER, key TEXT, app TEXT, model TEXT, class TEXT, "
        + ", ".join(f"{name} REAL NOT NULL" for name in USAGE_COLUMNS)
        + ", PRIMARY KEY (hour, key, app, model, class)) WITHOUT ROWID",
    ),
    ("journal_mode = WAL", "synchronous = FULL", "cache_size = -512"),
    BUSY_WAIT,
    _add_columns,
)
_LOST = "keys made with `stoker keys create` are unknown until it is repaired or they are made again"
_ADD_USAGE = (  # names of columns only: every value is bound
    f"INSERT INTO usage (hour, key, app, model, class, {', '.join(USAGE_COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join('?' * (5 + len(USAGE_COLUMNS)))}) ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in USAGE_COLUMNS)
)

UsageKey = tuple[int, str, str, str, str]
"""Hour (Unix seconds divided by 3600), key, application, model (the serve's name), class."""
UsageRow = tuple[UsageKey, Sequence[float]]
CounterRow = tuple[str, str, float, float]
"""Owner, setting, start of the window, amount."""


class AccessRecords(NamedTuple):
    """What the file held at the start."""

    salt: bytes
    keys: list[RuntimeKey]
    overrides: list[SettingsOverride]
    counters: dict[str, dict[str, tuple[float, float]]]
    """By owner and setting: start of the window, amount."""


class AccessFile:
    """One connection. Any call may raise sqlite3.Error or OSError; the file is then as before the call."""

    def __init__(self, path: Path) -> None:
        self._db = connect_or_replace(path, _SCHEMA, log, _LOST)

    def read(self) -> AccessRecords:
        """Everything but usage. The salt is made on the first call."""
        db = self._db
        row = db.execute("SELECT value FROM meta WHERE name = 'salt'").fetchone()
        salt = row[0] if row is not None else os.urandom(32)
        if row is None:
            db.execute("INSERT INTO meta VALUES ('salt', ?)", (salt,))
        counters: dict[str, dict[str, tuple[float, float]]] = {}
        for owner, setting, start, used in db.execute("SELECT owner, setting, start, used FROM counters"):
            counters.setdefault(owner, {})[setting] = (start, used)
        return AccessRecords(
            salt,
            [_key.decode(record) for (record,) in db.execute("SELECT record FROM keys")],
            [_override.decode(record) for (record,) in db.execute("SELECT record FROM overrides")],
            counters,
        )

    def save_key(self, key: RuntimeKey) -> None:
        self._db.execute("INSERT OR REPLACE INTO keys VALUES (?, ?)", (key.name, _encode(key)))

    def delete_key(self, name: str) -> None:
        self._db.execute("DELETE FROM keys WHERE name = ?", (name,))

    def save_override(self, override: SettingsOverride) -> None:
        record = override.kind, override.name, _encode(override)
        self._db.execute("INSERT OR REPLACE INTO overrides VALUES (?, ?, ?)", record)

    def delete_override(self, kind: str, name: str) -> None:
        self._db.execute("DELETE FROM overrides WHERE kind = ? AND name = ?", (kind, name))

    def add(self, usage: Iterable[UsageRow], counters: Iterable[CounterRow]) -> None:
        """Add usage to what is there, and replace counters, in one transaction."""
        with transaction(self._db):
            self._db.executemany(_ADD_USAGE, [(*key, *amounts) for key, amounts in usage])
            self._db.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?, ?, ?)", counters)

    def forget_usage(self, before: int) -> int:
        """Delete the usage of hours before this one. Returns how many rows."""
        return self._db.execute("DELETE FROM usage WHERE hour < ?", (before,)).rowcount

    def usage(self, first_hour: int, last_hour: int) -> list[UsageRow]:
        """All rows from one hour to another one, both included."""
        rows = self._db.execute("SELECT * FROM usage WHERE hour BETWEEN ? AND ?", (first_hour, last_hour))
        return [((row[0], row[1], row[2], row[3], row[4]), row[5:]) for row in rows]

    def close(self) -> None:
        self._db.close()


def read_overrides(path: Path) -> list[SettingsOverride]:
    """The overrides in a file, also while Stoker runs; nothing is written. None if there is no such file."""
    rows = _query(path, "SELECT record FROM overrides", ())
    return [_override.decode(record) for (record,) in rows]


def read_key_names(path: Path) -> list[str]:
    """The names of keys made at run time."""
    return [str(name) for (name,) in _query(path, "SELECT name FROM keys ORDER BY name", ())]


def read_usage(path: Path, first_hour: int, last_hour: int) -> list[UsageRow]:
    """As `AccessFile.usage`, also while Stoker runs; nothing is written. Empty if there is no such file."""
    rows = _query(path, "SELECT * FROM usage WHERE hour BETWEEN ? AND ?", (first_hour, last_hour))
    return [((row[0], row[1], row[2], row[3], row[4]), row[5:]) for row in rows]


def _query(path: Path, query: str, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
    if not path.is_file():
        return []
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_WAIT)
    try:
        return db.execute(query, values).fetchall()
    finally:
        db.close()


_key = msgspec.json.Decoder(RuntimeKey)
_override = msgspec.json.Decoder(SettingsOverride)


def _encode(record: RuntimeKey | SettingsOverride) -> str:
    return msgspec.json.encode(record).decode()
