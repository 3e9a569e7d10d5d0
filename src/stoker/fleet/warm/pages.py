"""The kernel's calls about the pages of a file: map, read in, lock, count. Linux; all raise OSError.

Nothing here touches a mapped byte itself, so a file that shrinks is an error, never a SIGBUS.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from typing import Any

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
    part, counts = _Range(offset, length), _Counts()
    if _LIBC.syscall(_CACHESTAT, file, ctypes.byref(part), ctypes.byref(counts), 0) == 0:
        return int(counts.cached)
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP):  # EPERM: a sandbox that does not know the call
        return None
    raise OSError(number, os.strerror(number))
