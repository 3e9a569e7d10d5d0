"""What the C library does with memory that is freed."""

from __future__ import annotations

import ctypes

LARGE = 2**20
"""Bytes. Larger blocks, such as the bodies of requests with images, go back to the system when they are freed."""
KEPT = 4 * 2**20
"""Bytes at the end of the heap that stay when they are freed: the bodies of some requests of agents. Memory that comes
back from the system has to be cleared first, which takes an eighth of the time of such a request.
"""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h


def give_back_large_blocks() -> None:
    """glibc would raise its own bound to the largest block that was ever freed, up to 32 MiB, and keep such blocks in
    its heap from then on: sixteen bodies of 10 MB left 20 MB behind. Does nothing with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGE)
        mallopt(_TRIM_THRESHOLD, KEPT)
