"""Does the end of a text repeat itself?

A loop is found by its period, in characters, whatever the script: an n-gram that repeats is one with a short period.
A text that repeats with small changes is found by how well it compresses.
"""

from __future__ import annotations

import zlib

TIMES = 4
"""Least number of repetitions of the unit."""
LEAST = 240
"""Least number of characters in all repetitions together."""
LOOKED_AT = 2048
"""Bytes at the end that are compressed."""
RATIO = 0.15
_SAMPLE = 24
_TRIES = 40


def is_loop(tail: str) -> bool:
    """Whether its end is one unit, TIMES or more; or compresses below RATIO. Bounded by the tail's size."""
    tail = tail.rstrip()
    return _period(tail) is not None or _ratio(tail) < RATIO


def _period(tail: str) -> int | None:
    """Characters of the unit that repeats at the end."""
    sample = tail[-_SAMPLE:]
    at = len(tail) - len(sample)
    for _ in range(_TRIES):
        at = tail.rfind(sample, 0, at + len(sample) - 1)
        if at < 0:
            return None
        period = len(tail) - len(sample) - at
        covered = max(period * TIMES, LEAST)
        if covered > len(tail):
            return None
        end = tail[-covered:]
        if end[period:] == end[:-period]:
            return period
    return None


def _ratio(tail: str) -> float:
    data = tail[-LOOKED_AT:].encode("utf-8", "replace")[-LOOKED_AT:]
    return len(zlib.compress(data, 6)) / len(data) if len(data) == LOOKED_AT else 1.0
