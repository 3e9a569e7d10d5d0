"""`STATE/responses/responses.db`: responses and conversations that clients stored, by owner. It holds content.

The directory is 0700, the file 0600. A call returns when its change is in the file: a killed process loses nothing that
a client knows of (a power cut may lose the last seconds). One thread uses the file, so no write blocks a request of
another client. What is older than `keep` is deleted; beyond `max_bytes`, the oldest entries of the owner that has most.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from stoker.domain.access import ResponseStorage
from stoker.domain.errors import StokerError
from stoker.store.files.directories import make_directory
from stoker.store.files.remedies import remedy
from stoker.store.sqlite_file import Schema, connect_or_replace, transaction

log = logging.getLogger("stoker.responses")

VERSION = 1
BUSY_WAIT = 2.0
PRUNE_EVERY = 60.0
"""Seconds between two deletions of what is too old."""
_OVERHEAD = 512
"""Bytes that an entry counts for besides its record: ids, keys, and its share of the indexes."""
_SCHEMA = Schema(
    VERSION,
    (
        "CREATE TABLE entries (owner TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, at REAL NOT NULL,"
        " size INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY (owner, kind, id))",
        "CREATE INDEX by_age ON entries (owner, at)",
    ),
    # secure_delete: what is deleted is overwritten. auto_vacuum: the file shrinks with its content.
    (
        "auto_vacuum = FULL", "journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON",
        "journal_size_limit = 4194304", "cache_size = -1024",
    ),
    BUSY_WAIT,
)  # fmt: skip
_ONE = "owner = ? AND kind = ? AND id = ?"

Result = TypeVar("Result")


class EntryKind(StrEnum):
    RESPONSE = "response"
    CONVERSATION = "conversation"


class ResponseFile:
    """One connection. Any call may raise sqlite3.Error or OSError; the file is then as before the call."""

    def __init__(self, path: Path, storage: ResponseStorage) -> None:
        self._db = connect_or_replace(path, _SCHEMA, log, "its responses are unknown")
        self._totals = self._count()
        self.configure(storage)

    def configure(self, storage: ResponseStorage) -> None:
        self._storage = storage

    @property
    def size(self) -> int:
        return sum(size for _, size in self._totals.values())

    @property
    def entries(self) -> int:
        return sum(count for count, _ in self._totals.values())

    def read(self, owner: str, kind: str, id: str, now: float) -> bytes | None:
        query = f"SELECT record FROM entries WHERE {_ONE} AND at >= ?"  # noqa: S608 - every value is bound
        row = self._db.execute(query, (owner, kind, id, now - self._storage.keep)).fetchone()
        return None if row is None else bytes(row[0])

    def write(self, owner: str, kind: str, id: str, record: bytes, now: float) -> bool:
        """Add or replace an entry, and delete the oldest ones beyond the limit. False: it is too large to be kept."""
        size = len(record) + _OVERHEAD
        if size > self._storage.max_bytes:
            return False
        with self._transaction():
            self._drop(owner, kind, id)
            self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", (owner, kind, id, now, size, record))
            self._add(owner, 1, size)
            self._shrink(owner, kind, id)
        return True

    def delete(self, owner: str, kind: str, id: str) -> bool:
        with self._transaction():
            return self._drop(owner, kind, id)

    def forget(self, owner: str) -> None:
        """Delete everything of one owner."""
        with self._transaction():
            self._db.execute("DELETE FROM entries WHERE owner = ?", (owner,))
            self._totals.pop(owner, None)

    def prune(self, now: float) -> int:
        """Delete what is too old, and what is beyond the limit. Returns how many entries were too old."""
        with self._transaction():
            found = self._db.execute("DELETE FROM entries WHERE at < ?", (now - self._storage.keep,)).rowcount
            if found:
                self._totals.clear()
                self._totals.update(self._count())
            self._shrink()
        return found

    def close(self) -> None:
        self._db.close()

    def _drop(self, owner: str, kind: str, id: str) -> bool:
        query = f"DELETE FROM entries WHERE {_ONE} RETURNING size"  # noqa: S608 - every value is bound
        rows = self._db.execute(query, (owner, kind, id)).fetchall()
        for (size,) in rows:
            self._add(owner, -1, -size)
        return bool(rows)

    def _shrink(self, *newest: str) -> None:
        """Delete the oldest entries of the owner that has most, until all fit. `newest` is never deleted."""
        while self.size > self._storage.max_bytes:
            owner = max(self._totals, key=lambda one: self._totals[one][1])
            query = "SELECT kind, id FROM entries WHERE owner = ? ORDER BY at, rowid"
            for kind, id in self._db.execute(query, (owner,)).fetchmany(2):
                if (owner, kind, id) != newest:
                    self._drop(owner, kind, id)
                    break
            else:
                return

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing; the totals go back with it."""
        before = dict(self._totals)
        try:
            with transaction(self._db):
                yield
        except BaseException:
            self._totals = before
            raise

    def _count(self) -> dict[str, tuple[int, int]]:
        rows = self._db.execute("SELECT owner, count(*), sum(size) FROM entries GROUP BY owner")
        return {owner: (count, size) for owner, count, size in rows}

    def _add(self, owner: str, count: int, size: int) -> None:
        before = self._totals.get(owner, (0, 0))
        self._totals[owner] = before[0] + count, before[1] + size


class ResponseStore:
    """The file and its thread. `configure` opens or closes it; every other call needs it open."""

    def __init__(self, directory: Path, wall: Callable[[], float]) -> None:
        self._path = directory / "responses" / "responses.db"
        self._wall = wall
        self._executor = ThreadPoolExecutor(1, "responses")
        self._file: ResponseFile | None = None
        self._storage = ResponseStorage()
        self._entries = 0
        self._size = 0
        self._problem = ""

    def configure(self, storage: ResponseStorage) -> None:
        """Follow the configuration. Raises StokerError `state_unusable`, and changes nothing then."""
        file = self._file
        if storage.store and file is None:
            try:
                make_directory(self._path.parent, "choose another one with `state` under [paths]")
                self._file = file = ResponseFile(self._path, storage)
                self._entries, self._size = file.entries, file.size
            except (sqlite3.Error, OSError) as error:
                raise _unusable(self._path, error) from error
        elif not storage.store and file is not None:
            self._file = None
            self._executor.submit(file.close)
        elif file is not None:
            self._executor.submit(file.configure, storage)
        self._storage = storage

    @property
    def offers_websocket(self) -> bool:
        """Whether the Responses API is spoken over WebSocket, too."""
        return self._storage.websocket

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def status(self) -> dict[str, Any] | None:
        """What /status shows; None: nothing is stored."""
        if self._file is None:
            return None
        storage = self._storage
        return {
            "entries": self._entries, "bytes": self._size, "max_bytes": storage.max_bytes, "keep": storage.keep,
            "problem": self._problem or None,
        }  # fmt: skip

    async def read(self, owner: str, kind: EntryKind, id: str) -> bytes | None:
        """The record; None: this owner has none of that id. Raises StokerError `state_unusable`, as all below do."""
        return await self._run(lambda file: file.read(owner, kind, id, self._wall()))

    async def write(self, owner: str, kind: EntryKind, id: str, make: Callable[[], bytes]) -> bool:
        """Store what `make` returns; it is called in the file's thread. False: it is too large."""
        return await self._run(lambda file: file.write(owner, kind, id, make(), self._wall()))

    async def change(
        self, owner: str, kind: EntryKind, id: str, change: Callable[[bytes], tuple[bytes, Result]]
    ) -> Result | None:
        """Replace a record by what `change` makes of it. None: there is none. What `change` raises passes."""

        def work(file: ResponseFile) -> Result | None:
            now = self._wall()
            record = file.read(owner, kind, id, now)
            if record is None:
                return None
            changed, result = change(record)
            if changed != record and not file.write(owner, kind, id, changed, now):
                raise StokerError("the record is larger than responses.max_bytes", code="too_large", status=413)
            return result

        return await self._run(work)

    async def delete(self, owner: str, kind: EntryKind, id: str) -> bool:
        """False: this owner has none of that id."""
        return await self._run(lambda file: file.delete(owner, kind, id))

    async def forget(self, owner: str) -> None:
        """Delete everything of an owner. Does nothing if the store is closed."""
        if self._file is not None:
            await self._run(lambda file: file.forget(owner))

    async def run(self) -> None:
        """Delete what is too old, until cancelled. A problem of the disk is logged once."""
        while True:
            if self._file is not None:
                with contextlib.suppress(StokerError):  # `_run` has logged it
                    await self._run(lambda file: file.prune(self._wall()))
            await asyncio.sleep(PRUNE_EVERY)

    def close(self) -> None:
        """Wait for what is being written, and close the file."""
        self._executor.shutdown()
        if self._file is not None:
            self._file.close()
            self._file = None

    async def _run(self, work: Callable[[ResponseFile], Result]) -> Result:
        """Run on the file's thread. On cancel the work goes on."""
        file = self._file
        if file is None:
            raise StokerError("the store of responses was just switched off", code="state_unusable")
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, work, file)
            result = await asyncio.shield(future)
            self._size, self._entries = file.size, file.entries
        except (sqlite3.Error, OSError) as error:
            if not self._problem:
                log.error("%s cannot be used (%s): %s", self._path, error, remedy(error, self._path.parent))
            self._problem = str(error)
            raise _unusable(self._path, error) from error
        if self._problem:
            log.warning("%s can be used again", self._path)
            self._problem = ""
        return result


def _unusable(path: Path, error: Exception) -> StokerError:
    text = f"stored responses cannot be read or written ({error}): {remedy(error, path.parent)}"
    return StokerError(text, code="state_unusable")
