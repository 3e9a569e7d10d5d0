"""Memory that is really held, and really given back."""

from __future__ import annotations

import mmap


class Ballast:
    """Megabytes of this process that are there: a mapping, because the heap gives nothing back for certain."""

    def __init__(self) -> None:
        self._held: mmap.mmap | None = None

    @property
    def megabytes(self) -> int:
        return len(self._held) // 2**20 if self._held is not None else 0

    def hold(self, megabytes: int) -> None:
        """Hold that many instead of what is held now; every page is touched."""
        self.drop()
        if megabytes > 0:
            self._held = mmap.mmap(-1, megabytes * 2**20)
            for _ in range(megabytes):
                self._held.write(b"\1" * 2**20)

    def drop(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
