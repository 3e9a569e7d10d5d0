"""A request body that may be too large for memory: beyond `MEMORY`, it lies in a file without a name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from stoker.domain.errors import CapacityError

MEMORY = 2**20
"""Bytes of one body that are held in memory."""
PIECE = 256 * 1024
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

    def write(self, data: bytes) -> None:
        """Raises CapacityError 503 if the disk does not take it. May block for as long as the disk takes."""
        try:
            self._file.write(data)
        except OSError as error:
            text = f"the request body cannot be stored: {error.strerror or error}; retry later"
            raise CapacityError(text, code="spool_failed", retry_after=RETRY_AFTER) from error
        self.size += len(data)
        self.is_on_disk = self.size > MEMORY

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
