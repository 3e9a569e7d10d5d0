"""The serves' logs: append-mode files that outlive Stoker, bounded by rotation.

A child holds the file itself, never a pipe, so it goes on writing when Stoker has ended. It cannot be told to open
another file; so a full log is copied to `.log.1` and truncated in place (O_APPEND makes the child's next write land at
its new end). What is written between the copy and the truncation is lost.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

CHECK_EVERY = 2.0
"""Seconds."""


def log_path(directory: str, name: str) -> Path:
    return Path(directory) / f"{name}.log"


def open_log(path: Path) -> int:
    """A file descriptor to append to, 0600; the directory is made 0700 if it is missing.

    Raises OSError, also for a file or a link that another user made or can write to.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_symlink() and os.lstat(path).st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, f"it is a link that user {os.lstat(path).st_uid} made: remove it", str(path))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
        os.close(handle)
        text = f"it belongs to user {found.st_uid}" if found.st_uid != os.geteuid() else "other users can write into it"
        raise PermissionError(errno.EPERM, f"{text}: remove it, or correct its owner and permissions", str(path))
    return handle


def rotate_if_full(path: Path, limit: int) -> bool:
    """Move what is over `limit` bytes to `.1`, which keeps the last `limit` of them. Blocks; raises OSError."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return False
    if size <= limit:
        return False
    draft = path.with_name(f"{path.name}.1.part")
    draft.unlink(missing_ok=True)  # of a rotation that a crash broke off; or something else, which is not followed
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as old, path.open("rb") as full:
        full.seek(size - limit)
        left = limit
        while left > 0 and (piece := full.read(min(left, 1 << 20))):
            old.write(piece)
            left -= len(piece)
    draft.rename(path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)
    return True


class LogKeeper:
    """Keeps the watched logs within their bound: one timer for all of them, the copying in a thread.

    Between two checks (`CHECK_EVERY` seconds) a log may grow beyond `limit`.
    """

    def __init__(self, limit: int, log: logging.Logger) -> None:
        self._limit = limit
        self._log = log
        self._watched: set[Path] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rotating: asyncio.Future[None] | None = None

    def watch(self, path: Path) -> None:
        self._watched.add(path)
        if self._timer is None:
            self._arm()

    def forget(self, path: Path) -> None:
        self._watched.discard(path)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Stop looking; a rotation under way ends first."""
        for path in list(self._watched):
            self.forget(path)
        if self._rotating is not None:
            await asyncio.wait([self._rotating])

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_EVERY, self._rotate_full)

    def _rotate_full(self) -> None:
        full = [path for path in self._watched if self._is_full(path)]
        if full and (self._rotating is None or self._rotating.done()):
            self._rotating = asyncio.get_running_loop().run_in_executor(None, self._rotate, full)
        self._arm()

    def _is_full(self, path: Path) -> bool:
        try:
            return path.stat().st_size > self._limit
        except OSError:
            return False  # deleted: the child writes into the void, and nothing grows

    def _rotate(self, paths: Iterable[Path]) -> None:
        for path in paths:
            try:
                rotate_if_full(path, self._limit)
            except OSError as error:
                self._log.warning(
                    "%s could not be rotated (%s): free space on its disk, or delete its .1", path, error.strerror
                )
