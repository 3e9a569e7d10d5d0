"""What the C library does with memory that is freed."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

LARGE = 2**20
"""Bytes. Larger blocks, such as the bodies of requests with images, go back to the system when they are freed."""
KEPT = 4 * 2**20
"""Bytes at the end of the heap that stay when they are freed: the bodies of some requests of agents. Memory that comes
back from the system has to be cleared first, which takes an eighth of the time of such a request.
"""
LOOK_EVERY = 4.0
"""Seconds."""
SLACK = 16 * 2**20
"""Bytes of freed memory that may stay in the heap: what large requests need again and again."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def give_back_large_blocks() -> None:
    """glibc would raise its own bound to the largest block that was ever freed, up to 32 MiB, and keep such blocks in
    its heap from then on: sixteen bodies of 10 MB left 20 MB behind. Does nothing with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGE)
        mallopt(_TRIM_THRESHOLD, KEPT)


class Heap(Protocol):
    """The heap of this process. `used` and `trim` take milliseconds, and other threads wait for memory meanwhile."""

    def resident(self) -> int:
        """Bytes of this process in memory, of whatever kind."""

    def used(self) -> int:
        """Bytes that the C library has handed out."""

    def trim(self) -> None:
        """Give free pages back to the system, wherever in the heap they are."""


class FreedMemory:
    """Gives freed memory back to the system where the C library keeps it: everything below a block that is still in
    use. What many small blocks leave behind, such as the pieces of large bodies, would stay as long as the program.
    """

    def __init__(self, heap: Heap) -> None:
        self._heap = heap
        self._least = heap.resident()
        """The fewest bytes in memory so far."""
        self._rest: int | None = None
        """The fewest bytes in memory that the C library did not hand out: code, stacks, Python's own small blocks.
        None: not known yet.
        """

    def is_worth_a_look(self) -> bool:
        """Whether there can be much to give back. Takes microseconds."""
        now = self._heap.resident()
        self._least = min(self._least, now)
        return now > self._least + SLACK

    def give_back(self) -> None:
        """Give back what is free, if it is much. Blocks for as long as `Heap.trim`."""
        rest = self._heap.resident() - self._heap.used()
        if self._rest is not None and rest <= self._rest + SLACK:
            self._rest = min(self._rest, rest)
            return
        self._heap.trim()
        self._rest = self._heap.resident() - self._heap.used()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self.is_worth_a_look():
                await asyncio.to_thread(self.give_back)


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    ]  # fmt: skip


class GlibcFunctions(NamedTuple):
    mallinfo: Callable[[], _Mallinfo]
    trim: Callable[[int], int]


class GlibcHeap:
    """The heap of glibc, 2.33 or newer."""

    def __init__(self, functions: GlibcFunctions) -> None:
        self._functions = functions

    def resident(self) -> int:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE

    def used(self) -> int:
        found = self._functions.mallinfo()
        return int(found.uordblks + found.hblkhd)

    def trim(self) -> None:
        self._functions.trim(0)


def glibc_heap() -> GlibcHeap | None:
    """None: another C library, which decides for itself what it keeps, or an old one."""
    library = ctypes.CDLL(None)
    if not os.path.exists("/proc/self/statm"):
        return None
    try:
        mallinfo = ctypes.CFUNCTYPE(_Mallinfo)(("mallinfo2", library))
        trim = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)(("malloc_trim", library))
    except AttributeError:
        return None
    return GlibcHeap(GlibcFunctions(mallinfo, trim))
