"""Hash the files of a model in threads, each only once: see `disk.hashes`."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from stoker.fleet.rehydrate import copying
from stoker.fleet.rehydrate.threads import in_thread
from stoker.store.files.hashes import HashCache

CONCURRENT_READS = 2


class FileHasher:
    """One per state directory. All methods belong to the loop's thread."""

    def __init__(self, state: Path) -> None:
        self._cache = HashCache(state)
        self._turn = asyncio.Semaphore(CONCURRENT_READS)

    def cached(self, path: Path) -> str | None:
        """The hex digest of a file that was hashed before; None also for a file that does not exist."""
        try:
            return self._cache.lookup(path)
        except OSError:
            return None

    async def sha256(self, path: Path) -> str:
        """The hex digest of a file, from the cache if it was read before. Raises OSError.

        On cancel the reading stops before CancelledError leaves this call.
        """
        found = self._cache.lookup(path)
        if found is not None:
            return found
        async with self._turn:
            found = self._cache.lookup(path)  # another task may have read it meanwhile
            if found is not None:
                return found

            def read(stop: threading.Event) -> tuple[str, bool]:
                return self._cache.measure(path, lambda each: copying.hash_file(each, stop))

            digest, is_steady = await in_thread(read)
            if is_steady:
                self._cache.remember(path, digest)
            return digest

    def remember(self, path: Path, digest: str) -> None:
        """Store the digest of `path` as the file is now. Raises OSError if the file is gone."""
        self._cache.remember(path, digest)
