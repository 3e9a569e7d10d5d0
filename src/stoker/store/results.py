"""The index of results: STATE/results.db over the files in STATE/results.

The files are the truth. If the index is damaged, has another version, or does not match the files, it is rebuilt from
them. A problem with one file is reported, and does not affect the others.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.domain.errors import StokerError
from stoker.domain.run import Outcome, Run, RunKind
from stoker.store.files.directories import make_directory
from stoker.store.files.remedies import remedy

VERSION = 1
"""`PRAGMA user_version`; a file of another one is made again."""
HEAD = 4 << 20
_RAW = b'\n "raw":'
"""Begins the last member of a file, as `result_file.save` writes it. No text in a file has a line break."""
_WAIT = 5.0
_SCHEMA = (
    "CREATE TABLE runs (id TEXT PRIMARY KEY, kind TEXT NOT NULL, serve TEXT NOT NULL, at REAL NOT NULL,"
    " seconds REAL NOT NULL, outcome TEXT NOT NULL, identity TEXT NOT NULL, execution TEXT NOT NULL,"
    " baseline INTEGER NOT NULL, findings INTEGER NOT NULL, failed INTEGER NOT NULL, stamp INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "CREATE INDEX runs_at ON runs (at)",
    f"PRAGMA user_version = {VERSION}",
)
_COLUMNS = "id, kind, serve, at, seconds, outcome, identity, execution, baseline, findings, failed"
_SHUT = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY,
                   sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR})  # fmt: skip


class ResultEntry(NamedTuple):
    """A run as the index knows it."""

    id: str
    kind: RunKind
    serve: str
    at: float
    seconds: float
    outcome: Outcome
    identity: str
    """Digest of the identity; empty: unknown."""
    execution: str
    is_baseline: bool
    findings: int
    failed: int


class Results:
    """Finds runs by id, kind, serve and time. Several processes may use one index; every call is one transaction.

    If the index cannot be used, every search reads the files.
    """

    def __init__(self, state: Path) -> None:
        self.directory = state / "results"
        self.path = state / "results.db"

    def record(self, run: Run) -> None:
        """Enter a run whose file was written, or written again. Raises StokerError `results_unusable`."""
        with self._open(writes=True) as db:
            _enter(db, run, _stamp(self._file(run.id)))

    def sync(self) -> list[str]:
        """Add new files, forget deleted ones. Returns one sentence for each invalid file."""
        with self._open() as db:
            return self._sync(db)

    def find(self, wanted: str) -> list[str]:
        """Ids that are, begin with, or end with `wanted`; the exact one alone. Newest first."""
        with self._open() as db:
            self._sync(db)
            if db.execute("SELECT 1 FROM runs WHERE id = ?", (wanted,)).fetchone():
                return [wanted]
            rows = db.execute("SELECT id FROM runs ORDER BY id DESC").fetchall()
        return [str(row[0]) for row in rows if row[0].startswith(wanted) or row[0].endswith(wanted)] if wanted else []

    def select(
        self,
        kind: RunKind | None = None,
        serve: str | None = None,
        since: float | None = None,
        outcome: Outcome | None = None,
        baselines: bool = False,
        limit: int = 100,
    ) -> list[ResultEntry]:
        """Newest first. `since`: Unix time. `baselines`: only runs that were recorded as one."""
        where = {"kind = ?": kind, "serve = ?": serve, "at >= ?": since, "outcome = ?": outcome}
        chosen = {words: value for words, value in where.items() if value is not None}
        words = [*chosen, *(["baseline = 1"] if baselines else [])]
        clause = f" WHERE {' AND '.join(words)}" if words else ""
        query = f"SELECT {_COLUMNS} FROM runs{clause} ORDER BY at DESC, id DESC LIMIT ?"  # noqa: S608 - our words
        with self._open() as db:
            rows = db.execute(query, (*(str(v) if isinstance(v, str) else v for v in chosen.values()), max(limit, 0)))
            return [_entry(row) for row in rows.fetchall()]

    def load(self, run_id: str) -> Run:
        """The whole artifact. Raises StokerError `no_result`."""
        return _load(self._file(run_id))

    def load_without_samples(self, run_id: str) -> Run:
        """The artifact without `raw`, which is not even read.

        Raises StokerError `no_result`, also if what stands before `raw` is larger than HEAD bytes.
        """
        path = self._file(run_id)
        try:
            with path.open("rb") as file:
                head = file.read(HEAD)
        except OSError as error:
            raise _unreadable(path, error) from error
        before, found, _ = head.partition(_RAW)
        return _decode(before.rstrip(b",") + b"}" if found else head, path)

    # -- pieces ------------------------------------------------------------------------------------------------------

    def _file(self, run_id: str) -> Path:
        return self.directory / f"{run_id}.json"

    @contextlib.contextmanager
    def _open(self, writes: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            found = self._on_disk()
        except StokerError:
            if writes:
                raise
            found = self._in_memory()
        with closing(found) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._unusable(error) from error
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _in_memory(self) -> sqlite3.Connection:
        db = sqlite3.connect(":memory:", isolation_level=None)
        self._migrate(db)
        return db

    def _on_disk(self) -> sqlite3.Connection:
        """Raises StokerError; an invalid index is rebuilt."""
        make_directory(self.path.parent, "choose another state directory")
        try:
            self.path.touch(0o600)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            db = self._ready()
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _SHUT:
                raise self._unusable(error) from error
            self._remove()  # it holds nothing that the files do not
            try:
                self.path.touch(0o600)
                db = self._ready()
            except (sqlite3.Error, OSError) as again:
                raise self._unusable(again) from again
        return db

    def _ready(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL").fetchall()
            db.execute("PRAGMA synchronous = NORMAL")
            if self._version(db) != VERSION:
                self._migrate(db)
            db.execute("SELECT stamp FROM runs LIMIT 1").fetchall()
        except BaseException:
            db.close()
            raise
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        """From nothing, or from any other version: the files know it all."""
        db.execute("BEGIN IMMEDIATE")
        try:
            if self._version(db) != VERSION:  # another process may have been faster
                db.execute("DROP TABLE IF EXISTS runs")
                for statement in _SCHEMA:
                    db.execute(statement)
                self._sync(db)
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    @staticmethod
    def _version(db: sqlite3.Connection) -> int:
        return int(db.execute("PRAGMA user_version").fetchone()[0])

    def _sync(self, db: sqlite3.Connection) -> list[str]:
        known = dict(db.execute("SELECT id, stamp FROM runs").fetchall())
        found = {path.stem: path for path in self.directory.glob("*.json") if not path.name.startswith(".")}
        for gone in known.keys() - found.keys():
            db.execute("DELETE FROM runs WHERE id = ?", (gone,))
        problems = []
        for run_id, path in sorted(found.items()):
            stamp = _stamp(path)
            if known.get(run_id) == stamp:
                continue
            try:
                run = _load(path)
                if run.id != run_id:
                    raise StokerError(f"the result {path} contains the id {run.id[:80]!r}", code="no_result")
            except StokerError as error:
                problems.append(error.message)
                db.execute("DELETE FROM runs WHERE id = ?", (run_id,))
            else:
                _enter(db, run, stamp)
        return problems

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm", "-journal"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _unusable(self, error: sqlite3.Error | OSError) -> StokerError:
        text = f"the index of results {self.path} cannot be used ({error}): {remedy(error, self.path.parent)}"
        return StokerError(text, code="results_unusable")


def _load(path: Path) -> Run:
    try:
        return _decode(path.read_bytes(), path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _decode(body: bytes, path: Path) -> Run:
    try:
        return msgspec.json.decode(body, type=Run)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError | msgspec.DecodeError | UnicodeDecodeError) -> StokerError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return StokerError(f"the result {path} cannot be read ({why})", code="no_result")


def _enter(db: sqlite3.Connection, run: Run, stamp: int) -> None:
    is_baseline = bytes(run.settings.get("baseline", b"false")) == b"true"
    failed = sum(finding.outcome is Outcome.FAILED for finding in run.findings)
    mark = run.subject.fingerprint
    db.execute(
        f"INSERT OR REPLACE INTO runs ({_COLUMNS}, stamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (run.id, run.kind.value, run.subject.serve, run.at, run.seconds, run.outcome.value, mark.identity,
         mark.execution, is_baseline, len(run.findings), failed, stamp),
    )  # fmt: skip


def _entry(row: tuple[str, str, str, float, float, str, str, str, int, int, int]) -> ResultEntry:
    run_id, kind, serve, at, seconds, outcome, identity, execution, baseline, findings, failed = row
    return ResultEntry(
        run_id,
        RunKind(kind),
        serve,
        at,
        seconds,
        Outcome(outcome),
        identity,
        execution,
        bool(baseline),
        findings,
        failed,
    )


def _stamp(path: Path) -> int:
    """Changes when the file does; 0: it is not there."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return found.st_mtime_ns ^ found.st_size ^ found.st_ino
