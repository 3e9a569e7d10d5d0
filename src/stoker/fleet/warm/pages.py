"""The pages of a file: map, read in, lock, count and evict them; all raise OSError.

Elsewhere than on Linux pages can be read in and locked, and what is cached is unknown.

Nothing here touches a mapped byte itself, so a file that shrinks is an error, never a SIGBUS. Counting needs 1 MiB of
memory for files of any size.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Sequence
from typing import Any

from stoker.system.identity import is_linux

SIZE = mmap.PAGESIZE
_POPULATE_READ = 22  # MADV_POPULATE_READ, Linux 5.14; the mmap module does not name it
_CACHESTAT = 451  # Linux 6.5; the same number on all 64-bit platforms that Python has wheels for
_FAILED = ctypes.c_void_p(-1).value


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently"))


def _calls() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    address, size = ctypes.c_void_p, ctypes.c_size_t
    libc.mmap.restype = address
    libc.mmap.argtypes = (address, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
    libc.munmap.argtypes = libc.mlock.argtypes = (address, size)
    libc.madvise.argtypes = (address, size, ctypes.c_int)
    libc.mincore.argtypes = (address, size, address)
    return libc


_LIBC = _calls()


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Mapping:
    """A part of a file, mapped for reading. Uses only address space. It stays mapped until `close`."""

    def __init__(self, file: int, offset: int, length: int) -> None:
        """`offset` is a multiple of the page size. Raises OSError."""
        address = _LIBC.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file, offset)
        if address == _FAILED:
            _checked(-1)
        self._address: int = address
        self._length = length

    def read_in(self, offset: int, length: int) -> None:
        """Reads these bytes in, and marks them as used. Returns when they are in memory.

        Raises OSError: EINVAL on an old kernel, EFAULT for what the file does not have any more.
        """
        _checked(_LIBC.madvise(self._address + offset, length, _POPULATE_READ))

    def lock(self, offset: int, length: int) -> None:
        """Locks these bytes: they cannot be evicted until `close`. Raises OSError (ENOMEM, EPERM, EAGAIN) beyond
        RLIMIT_MEMLOCK.
        """
        _checked(_LIBC.mlock(self._address + offset, length))

    def cached_pages(self) -> int:
        """How many of its pages are in the page cache, by mincore(2)."""
        seen = (ctypes.c_ubyte * -(-self._length // SIZE))()
        _checked(_LIBC.mincore(self._address, self._length, seen))
        return sum(byte & 1 for byte in bytes(seen))

    def close(self) -> None:
        """Unmaps and unlocks. May be called twice."""
        if self._length:
            _LIBC.munmap(self._address, self._length)
            self._length = 0


def cached_pages(file: int, offset: int, length: int) -> int | None:
    """How many pages of this part are in the page cache, by cachestat(2). None: this kernel cannot tell."""
    if not is_linux():  # the number is another call there, or the end of this process
        return None
    part, counts = _Range(offset, length), _Counts()
    if _LIBC.syscall(_CACHESTAT, file, ctypes.byref(part), ctypes.byref(counts), 0) == 0:
        return int(counts.cached)
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP):  # EPERM: a sandbox that does not know the call
        return None
    raise OSError(number, os.strerror(number))


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
        seen = cached_pages(file, offset, length)
        cached += _by_mincore(file, offset, length) if seen is None else seen
    return cached, -(-found.st_size // SIZE)


def _by_mincore(file: int, offset: int, length: int) -> int:
    mapping = Mapping(file, offset, length)
    try:
        return mapping.cached_pages()
    finally:
        mapping.close()


def _can_trust_mincore(file: int, found: os.stat_result) -> bool:
    """Whether mincore may be trusted: for files of other users it always reports that all is cached. Other systems than
    Linux give it other meanings.
    """
    return is_linux() and (os.geteuid() == found.st_uid or os.access(f"/proc/self/fd/{file}", os.W_OK))


def evict(path: str) -> None:
    """Asks the kernel to evict the file; pages that are locked or mapped stay. Does nothing where it cannot be asked.
    Raises OSError.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)  # a page that is not yet written to disk is not dropped
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
