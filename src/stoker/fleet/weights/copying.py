"""Copies and hashes files in chunks, in threads that stop when their caller is cancelled.

An interrupted copy (Stoker is killed, the source's disk goes away) leaves its draft and, beside it, a note about the
source. The next one continues there if the source still has that size and that time. A file is hashed once: see
`store.files.hashes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from stoker.blocking import in_own_thread
from stoker.store.files.hashes import HashCache

T = TypeVar("T")
STOPS_WITHIN = 5.0
"""Seconds until a thread that does not stop is left behind: it waits for a file system that does not answer."""


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work(stop)` in a thread; what it raises is raised here.

    On cancel `stop` is set, and CancelledError leaves this call when the thread has ended, or after STOPS_WITHIN:
    `work` has to check `stop`.
    """
    stop, loop = threading.Event(), asyncio.get_running_loop()
    running = loop.create_task(in_own_thread(partial(work, stop)), name="file-thread")
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        until = loop.time() + STOPS_WITHIN
        while not running.done() and (left := until - loop.time()) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([running], timeout=left)
        if not running.done():
            running.cancel()
        elif not running.cancelled():
            running.exception()  # the caller was cancelled: nobody reads it
        raise


CHUNK = 4 * 2**20
OnProgress = Callable[[int], None]
"""Called with the bytes that are done so far."""


class CopyStopped(Exception):
    """The copy was cancelled."""


class SourceUnreadable(Exception):
    """The source cannot be read; the text says why. What was copied stays, for the next attempt."""


class DraftUnwritable(Exception):
    """The copy cannot be written; `error` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror)
        self.error = error


def copy(source: Path, draft: Path, stop: threading.Event, on_progress: OnProgress) -> str:
    """Copy `source` to `draft`, synced to disk; returns the hex SHA-256 of the whole file.

    Raises CopyStopped, SourceUnreadable, DraftUnwritable.
    """
    before = _stat(source)
    note = note_of(draft)
    described: dict[str, object] = {"source": str(source), "size": before.st_size, "mtime_ns": before.st_mtime_ns}
    digest = hashlib.sha256()
    try:
        start = _resumable(draft, note, described)
        if not start:
            note.write_text(json.dumps(described), encoding="utf-8")
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (0 if start else os.O_TRUNC), 0o666)
    except OSError as error:
        raise DraftUnwritable(error) from error
    with os.fdopen(handle, "r+b", buffering=0) as target:
        feed(target.read, start, digest.update, stop)
        done = start
        try:
            whole = source.open("rb", buffering=0)
        except OSError as error:
            raise SourceUnreadable(f"{source}: {error.strerror}") from error
        with whole:
            whole.seek(start)
            on_progress(done)
            while piece := read_block(whole.read, source):
                check(stop)
                digest.update(piece)
                write_all(target.write, piece)
                done += len(piece)
                on_progress(done)
        after = _stat(source)
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns) or done != before.st_size:
            raise SourceUnreadable(f"{source} was changed while it was copied")
        try:
            os.fsync(target.fileno())
        except OSError as error:
            raise DraftUnwritable(error) from error
    return digest.hexdigest()


def hash_file(path: Path, stop: threading.Event) -> str:
    """The hex sha256. Raises CopyStopped, OSError."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        feed(file.read, None, digest.update, stop)
    return digest.hexdigest()


def note_of(draft: Path) -> Path:
    return draft.with_name(f"{draft.name}.from")


def _resumable(draft: Path, note: Path, described: dict[str, object]) -> int:
    """How many bytes of an earlier attempt can be used; 0: start again."""
    try:
        size = draft.stat().st_size
        is_same = json.loads(note.read_text(encoding="utf-8")) == described
    except (OSError, ValueError):
        return 0
    return size if is_same else 0


def feed(
    read: Callable[[int], bytes | None], size: int | None, update: Callable[[bytes], object], stop: threading.Event
) -> None:
    """Hash the next `size` bytes (None: all that come). Raises CopyStopped, OSError."""
    left = size
    while left is None or left > 0:
        check(stop)
        piece = read(CHUNK if left is None else min(CHUNK, left))
        if not piece:
            return
        update(piece)
        if left is not None:
            left -= len(piece)


def read_block(read: Callable[[int], bytes | None], source: Path) -> bytes | None:
    try:
        return read(CHUNK)
    except OSError as error:
        raise SourceUnreadable(f"{source}: {error.strerror}") from error


def write_all(write: Callable[[memoryview], int | None], piece: bytes) -> None:
    """Raises DraftUnwritable."""
    rest = memoryview(piece)
    try:
        while rest:  # a raw file may take less than it was given
            rest = rest[write(rest) or 0 :]
    except OSError as error:
        raise DraftUnwritable(error) from error


def _stat(source: Path) -> os.stat_result:
    try:
        return source.stat()
    except OSError as error:
        raise SourceUnreadable(f"{source}: {error.strerror}") from error


def check(stop: threading.Event) -> None:
    """Raises CopyStopped if the copy was cancelled."""
    if stop.is_set():
        raise CopyStopped


CONCURRENT_READS = 2


class FileHasher:
    """One per state directory. All methods belong to the loop's thread."""

    def __init__(self, state: Path) -> None:
        self._cache = HashCache(state)
        self._turn = asyncio.Semaphore(CONCURRENT_READS)
        self._writing = threading.Lock()

    def cached(self, path: Path) -> str | None:
        """The hex digest of a file that was hashed before; None also for a file that does not exist. Blocks."""
        try:
            return self._cache.lookup(path)
        except OSError:
            return None

    async def sha256(self, path: Path) -> str:
        """The hex digest of a file, from the cache if it was read before. Raises OSError.

        On cancel the reading stops before CancelledError leaves this call.
        """
        found = await in_thread(lambda stop: self._cache.lookup(path))
        if found is not None:
            return found
        async with self._turn:

            def read(stop: threading.Event) -> str:
                found = self._cache.lookup(path)  # another task may have read it meanwhile
                if found is not None:
                    return found
                digest, is_steady = self._cache.measure(path, lambda each: hash_file(each, stop))
                if is_steady:
                    with self._writing:
                        self._cache.remember(path, digest)
                return digest

            return await in_thread(read)

    def remember(self, path: Path, digest: str) -> None:
        """Store the digest of `path` as the file is now. Blocks. Raises OSError if the file is gone."""
        with self._writing:
            self._cache.remember(path, digest)
