"""What the machine can do at best, in bytes per second."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import msgspec

from stoker.fleet.warm import pages

_PIECE = 4 * 2**20


class Speeds(msgspec.Struct, frozen=True):
    """Bytes per second."""

    copy: float
    """Memory to memory, one core, the best of five."""
    disk: float
    """The weights read from start to end, none of them in the page cache."""
    cache: float
    """The same again, all of them in the page cache."""


def measure(path: Path) -> Speeds:
    """Drops `path` from the page cache first, and leaves it there."""
    copy = _copy()
    pages.evict(str(path))
    return Speeds(copy, _read(path), _read(path))


def _copy(size: int = 2**28) -> float:
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    ctypes.memset(source, 1, size)
    best = min(_timed(lambda: ctypes.memmove(target, source, size)) for _ in range(6))  # the first one makes the pages
    return size / best


def _timed(work: object) -> float:
    assert callable(work)
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _read(path: Path) -> float:
    buffer = bytearray(_PIECE)
    file = os.open(path, os.O_RDONLY)
    try:
        at, began = 0, time.perf_counter()
        while got := os.preadv(file, [buffer], at):
            at += got
        return at / (time.perf_counter() - began)
    finally:
        os.close(file)
