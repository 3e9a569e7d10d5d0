"""Memory that is really allocated, and really freed."""

from __future__ import annotations

import mmap


class Ballast:
    """Megabytes that this process holds: a mapping, because freed heap memory may stay with the process."""

    def __init__(self) -> None:
        self._held: mmap.mmap | None = None

    @property
    def megabytes(self) -> int:
        return len(self._held) // 2**20 if self._held is not None else 0

    def hold(self, megabytes: int) -> None:
        """Replaces the memory by so many megabytes; touches every page."""
        self.drop()
        if megabytes > 0:
            self._held = mmap.mmap(-1, megabytes * 2**20)
            for _ in range(megabytes):
                self._held.write(b"\1" * 2**20)

    def drop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
