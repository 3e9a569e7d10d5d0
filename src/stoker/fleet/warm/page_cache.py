"""How much of a file is in the page cache, and how to evict it. Needs 1 MiB of memory for files of any size."""

from __future__ import annotations

import os
from collections.abc import Sequence

from stoker.fleet.warm import pages

WINDOW = 2**30
"""Bytes of a file that are checked at once: mincore fills 256 KiB for them."""
ENOUGH = 0.95
"""A start counts as warm from this share of its weights in the page cache."""


def cached_share(path: str) -> float | None:
    """From 0 to 1; an empty file is 1. None: the kernel does not report it, for files that this user neither owns nor
    may write.

    About 0.1 ms per GiB with cachestat (Linux 6.5), some milliseconds with mincore. Raises OSError.
    """
    counted = count(path)
    return None if counted is None else _share([counted])


def cached_share_of(paths: Sequence[str]) -> float | None:
    """The share of all files together, by size. None as for `cached_share`, or without files. Raises OSError."""
    counted = [found for path in paths if (found := count(path)) is not None]
    return _share(counted) if paths and len(counted) == len(paths) else None


def _share(counted: Sequence[tuple[int, int]]) -> float:
    cached, whole = (sum(numbers) for numbers in zip(*counted, strict=True))
    return min(1.0, cached / whole) if whole else 1.0


def count(path: str) -> tuple[int, int] | None:
    """Pages in the cache, and pages of the file. None as for `cached_share`. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return count_of(file)
    finally:
        os.close(file)


def count_of(file: int) -> tuple[int, int] | None:
    """As `count`, for an open file."""
    found = os.fstat(file)
    if not _can_trust_mincore(file, found):
        return None
    cached = 0
    for offset in range(0, found.st_size, WINDOW):
        length = min(WINDOW, found.st_size - offset)
        seen = pages.cached_pages(file, offset, length)
        cached += _by_mincore(file, offset, length) if seen is None else seen
    return cached, -(-found.st_size // pages.SIZE)


def _by_mincore(file: int, offset: int, length: int) -> int:
    mapping = pages.Mapping(file, offset, length)
    try:
        return mapping.cached_pages()
    finally:
        mapping.close()


def _can_trust_mincore(file: int, found: os.stat_result) -> bool:
    """Whether mincore may be trusted: for files of other users it always reports that all is cached."""
    return os.geteuid() == found.st_uid or os.access(f"/proc/self/fd/{file}", os.W_OK)


def evict(path: str) -> None:
    """Asks the kernel to evict the file; pages that are locked or mapped stay. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)  # a page that is not yet written to disk is not dropped
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
