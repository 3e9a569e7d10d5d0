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
                digest, is_steady = self._cache.measure(path, lambda each: copying.hash_file(each, stop))
                if is_steady:
                    with self._writing:
                        self._cache.remember(path, digest)
                return digest

            return await in_thread(read)

    def remember(self, path: Path, digest: str) -> None:
        """Store the digest of `path` as the file is now. Blocks. Raises OSError if the file is gone."""
        with self._writing:
            self._cache.remember(path, digest)
