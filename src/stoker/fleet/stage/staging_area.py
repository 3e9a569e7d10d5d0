"""The hidden directory under the vault in which a model grows, with a lock and a note.

VAULT/.staging/KEY/       what was fetched so far, drafts included; removed when the model is complete
VAULT/.staging/KEY.json   the source, and its state then; stays, to recognise the model later
VAULT/.staging/KEY.lock   locked while a process works there
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from stoker.domain.errors import StokerError
from stoker.fleet.rehydrate import drafts

FOLDER = ".staging"


class StageRefused(StokerError):
    """A model is not staged, or not taken out; the message says why and what to type."""

    status = 409
    code = "not_staged"


class StagingNote(msgspec.Struct, frozen=True):
    """Where a model comes from: its source as it prints, and of each item its size and mark then."""

    source: str
    marks: dict[str, tuple[int | None, str]]


class StagingArea:
    """Of one model. Everything here blocks, for milliseconds."""

    def __init__(self, vault: Path, name: str) -> None:
        self.name = name
        self.root = vault / FOLDER
        key = quote(name, safe="")
        self.path = self.root / key
        self._note = self.root / f"{key}.json"
        self._lock = self.root / f"{key}.lock"

    @property
    def size(self) -> int:
        """Bytes in it."""
        return drafts.bytes_of(self.path) if self.path.is_dir() else 0

    @property
    def note(self) -> StagingNote | None:
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=StagingNote)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, note: StagingNote) -> None:
        """Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True)
        draft = self._note.with_name(f".{self._note.name}")
        draft.write_bytes(msgspec.json.encode(note))
        draft.rename(self._note)

    def discard(self) -> None:
        """Everything of it. What cannot be removed is left."""
        self.empty()
        with contextlib.suppress(OSError):
            self._note.unlink(missing_ok=True)

    def empty(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock it. Never waits: raises StageRefused `being_staged`, naming the other process; OSError.

        The kernel drops the lock with its process, so a crash leaves none.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        handle = self._take()
        try:
            yield
        finally:
            self._lock.unlink(missing_ok=True)
            os.close(handle)

    def _take(self) -> int:
        while True:
            handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                who = os.read(handle, 20).decode("ascii", "replace").strip()
                os.close(handle)
                raise StageRefused(
                    f"vault:{self.name} is being staged by process {who or '?'}: wait until it has ended, or end it "
                    f"(`kill -INT {who or 'PID'}`; the fetched part is kept)",
                    code="being_staged",
                ) from None
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(handle).st_ino == self._lock.stat().st_ino:
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                    return handle
            os.close(handle)  # its last owner removed it between the two checks


def staging_areas(vault: Path) -> list[StagingArea]:
    """What was begun and has not arrived."""
    try:
        found = sorted(entry.name for entry in os.scandir(vault / FOLDER) if entry.is_dir())
    except OSError:
        return []
    return [StagingArea(vault, unquote(key)) for key in found]
