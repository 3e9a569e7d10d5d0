"""A request body that may be too large for memory: beyond `MEMORY`, it lies in a file without a name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

from stoker.domain import figures
from stoker.domain.errors import CapacityError

MEMORY = 2**20
"""Bytes of one body that are held in memory."""
PIECE = 256 * 1024
RESERVE = 2**30
"""Bytes of the disk that stay free: Stoker's other files, and those of others, need them."""
LOOK_EVERY = 16 * 2**20
"""Bytes that are written before the disk is looked at again."""
RETRY_AFTER = 30.0


class Spool:
    """Written once, read as often as needed. Its file has no name: when it is closed, or Stoker ends in whatever way,
    nothing is left.
    """

    def __init__(self, directory: str) -> None:
        """`directory`: of the file; empty: the system's directory for temporary files."""
        self._file = tempfile.SpooledTemporaryFile(MEMORY, dir=directory or None)  # noqa: SIM115  # until `close`
        self.size = 0
        self.is_on_disk = False
        self._next_look = 0

    def write(self, data: bytes) -> None:
        """Raises CapacityError 503 if the disk does not take it, or is almost full. May block for as long as the disk
        takes.
        """
        try:
            self._file.write(data)
            self.size += len(data)
            self.is_on_disk = self.size > MEMORY
            free = self._free_space()
        except OSError as error:
            text = f"the request body cannot be stored: {error.strerror or error}; retry later"
            raise CapacityError(text, code="spool_failed", retry_after=RETRY_AFTER) from error
        if free < RESERVE:
            text = f"the request body cannot be stored: only {figures.size(free)} of the disk are free; retry later"
            raise CapacityError(text, code="spool_failed", retry_after=RETRY_AFTER)

    def _free_space(self) -> int:
        """Of the disk, if it is time to look at it; else RESERVE."""
        if not self.is_on_disk or self.size < self._next_look:
            return RESERVE
        self._next_look = self.size + LOOK_EVERY
        disk = os.fstatvfs(self._file.fileno())
        return disk.f_bavail * disk.f_frsize

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, in pieces."""
        while start < end:
            self._file.seek(start)
            piece = self._file.read(min(PIECE, end - start))
            if not piece:
                raise EOFError(f"the stored request body ends at {start} bytes")
            start += len(piece)
            yield piece

    def close(self) -> None:
        """Give the space back. May be called twice."""
        self._file.close()
