"""How fast memory can be read, in bytes per second: what limits the tokens of one request.

A GPU's is computed from what its driver says (width of the bus and memory clock), main memory's is measured.
"""

from __future__ import annotations

import ctypes
import os
import time
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum

_BLOCK = 64 * 2**20
_MOST_THREADS = 8
_REACHED = 0.6
"""Share of it that engines reach in practice with one request: 0.5 to 0.75 was published for llama.cpp and vLLM."""


class SpeedClass(StrEnum):
    """Tokens of one request per second. People read about 5 words a second."""

    FAST = "fast"
    FLUENT = "fluent"
    SLOW = "slow"
    VERY_SLOW = "very slow"


_LEAST = ((40.0, SpeedClass.FAST), (12.0, SpeedClass.FLUENT), (4.0, SpeedClass.SLOW))


def speed_class(tokens_per_second: float) -> SpeedClass:
    return next((word for least, word in _LEAST if tokens_per_second >= least), SpeedClass.VERY_SLOW)


def tokens_per_second(on_device: int, in_host: int, device: float | None, host: float) -> float | None:
    """An estimate for one request: each token reads so many bytes of a device's memory and of main memory. None: a
    device is needed whose speed is not known.
    """
    if on_device and not device:
        return None
    seconds = (on_device / device if device else 0.0) + in_host / host
    return _REACHED / seconds if seconds else None


def main_memory() -> float:
    """Measured now, in about 50 ms: how fast all cores together read, by copying (a copy reads and writes)."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    source, target = (ctypes.create_string_buffer(_BLOCK) for _ in range(2))
    ctypes.memset(source, 1, _BLOCK)
    ctypes.memset(target, 1, _BLOCK)
    part = _BLOCK // threads

    def copy(number: int) -> None:
        begin = number * part
        ctypes.memmove(ctypes.byref(target, begin), ctypes.byref(source, begin), part)

    with ThreadPoolExecutor(threads) as pool:
        best = 0.0
        for _ in range(3):
            began = time.perf_counter()
            list(pool.map(copy, range(threads)))
            best = max(best, 2 * _BLOCK / (time.perf_counter() - began))
    return best
