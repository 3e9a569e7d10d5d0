"""Reads log files from their end on, as they grow. A rotated log is read on from its beginning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

HISTORY = 100 * 1024
"""Bytes of earlier lines, of all files together."""
READ_AT_ONCE = 256 * 1024
"""Bytes."""


@dataclass(slots=True)
class _Position:
    inode: int
    offset: int


class LogTail:
    """Follows log files. Every method blocks; the order between files is that in which they were listed."""

    def __init__(self, files: Callable[[], Iterable[Path]]) -> None:
        """`files()`: those that exist now; one that appears later is read from its beginning."""
        self._files = files
        self._positions: dict[Path, _Position] = {}

    def history(self) -> bytes:
        """The last whole lines, at most `HISTORY` bytes. `read` goes on after them. Raises nothing."""
        files = list(self._files())
        texts = [self._last(path, HISTORY // len(files)) for path in files]
        return b"".join(texts)

    def skip(self) -> None:
        """Let `read` begin with what is appended from now on."""
        for path in self._files():
            self._last(path, 0)

    def read(self) -> bytes:
        """What was appended since the last call, at most `READ_AT_ONCE` bytes of each file. Raises nothing."""
        return b"".join(self._read_on(path) for path in self._files())

    def _last(self, path: Path, most: int) -> bytes:
        try:
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                start = max(0, found.st_size - most)
                file.seek(start)
                text = file.read(most)
        except OSError:
            return b""
        self._positions[path] = _Position(found.st_ino, start + len(text))
        return text if start == 0 else text.partition(b"\n")[2]

    def _read_on(self, path: Path) -> bytes:
        position = self._positions.setdefault(path, _Position(0, 0))
        try:
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != position.inode or found.st_size < position.offset:
                    position.inode, position.offset = found.st_ino, 0  # it was rotated
                file.seek(position.offset)
                text = file.read(READ_AT_ONCE)
        except OSError:
            return b""
        position.offset += len(text)
        return text
