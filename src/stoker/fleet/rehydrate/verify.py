"""The hashes of files that are there, remembered: a start must not read 40 GB again.

A remembered hash counts while the file has the same size, time of change and inode. The memory is `STATE/hashes.json`;
if it is lost or broken, files are read again. Other programs (`stoker stage`) write to it too: it is looked at again
when it changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
from functools import partial
from pathlib import Path

import msgspec

from stoker.fleet.rehydrate import copying
from stoker.fleet.rehydrate.threads import in_thread

AT_ONCE = 2
"""Files that are read at the same time."""


class Known(msgspec.Struct, frozen=True):
    """A file as it was when it was hashed."""

    size: int
    mtime_ns: int
    inode: int
    sha256: str


class Hashes:
    """One per state directory. All methods belong to the loop's thread."""

    def __init__(self, memory: Path) -> None:
        self._memory = memory
        self._known: dict[str, Known] = {}
        self._as_of: tuple[int, int, int] | None = None
        """What the memory was like when it was read."""
        self._turn = asyncio.Semaphore(AT_ONCE)

    def remembered(self, path: Path) -> str | None:
        """The hex digest of a file if it was read before; None also if there is no such file."""
        try:
            return self._remembered(path)
        except OSError:
            return None

    async def sha256(self, path: Path) -> str:
        """The hex digest of a file, from memory if it was read before. Raises OSError.

        On cancel the reading stops before CancelledError leaves this call.
        """
        found = self._remembered(path)
        if found is not None:
            return found
        async with self._turn:
            found = self._remembered(path)  # somebody may have read it meanwhile
            if found is not None:
                return found
            digest, is_steady = await in_thread(partial(_read, path))
            if is_steady:
                self.remember(path, digest)
            return digest

    def remember(self, path: Path, digest: str) -> None:
        """That `path` as it is now has this digest. A memory that cannot be written is no error: it costs time."""
        found = path.stat()
        known = self._load()
        known[str(path)] = Known(*_mark(found), digest)
        with contextlib.suppress(OSError):
            self._write({name: mark for name, mark in known.items() if os.path.exists(name)})

    def _remembered(self, path: Path) -> str | None:
        known = self._load().get(str(path))
        if known is None or (known.size, known.mtime_ns, known.inode) != _mark(path.stat()):
            return None
        return known.sha256

    def _load(self) -> dict[str, Known]:
        try:
            now = _mark(self._memory.stat())
            if now != self._as_of:
                self._known = msgspec.json.decode(self._memory.read_bytes(), type=dict[str, Known])
                self._as_of = now
        except (OSError, msgspec.DecodeError):
            pass  # what is known so far has to do
        return self._known

    def _write(self, known: dict[str, Known]) -> None:
        draft = self._memory.with_name(f".{self._memory.name}.{secrets.token_hex(4)}")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(known), indent=1))
            draft.rename(self._memory)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def _read(path: Path, stop: threading.Event) -> tuple[str, bool]:
    """The digest, and whether the file stayed as it was meanwhile."""
    before = _mark(path.stat())
    digest = copying.hash_file(path, stop)
    return digest, _mark(path.stat()) == before


def _mark(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino
