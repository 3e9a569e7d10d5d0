"""The log of a serve, read from its file: works whether anything runs or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

_BLOCK = 64 * 1024
FOLLOW_EVERY = 0.25
"""Seconds between two reads of a followed log."""


def last_lines(path: Path, count: int) -> tuple[list[str], int]:
    """The last `count` lines of `path`, continued in `path.1` where the log was just rotated.

    The number is the offset in `path` after them. Raises FileNotFoundError when there is no log at all.
    """
    old = path.with_name(path.name + ".1")
    if not path.exists() and not old.exists():
        raise FileNotFoundError(path)
    lines, end = _tail(path, count) if path.exists() else ([], 0)
    if len(lines) < count and old.exists():
        lines = _tail(old, count - len(lines))[0] + lines
    return lines, end


def follow(path: Path, offset: int, pause: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """What is appended to `path` after `offset`, for ever. A log that became shorter was rotated: from its start."""
    while True:
        length = path.stat().st_size if path.exists() else 0
        if length < offset:
            offset = 0
        if length > offset:
            with path.open("rb") as log:
                log.seek(offset)
                fresh = log.read(_BLOCK)
            offset += len(fresh)
            yield fresh.decode("utf-8", "replace")
        else:
            pause(FOLLOW_EVERY)


def _tail(path: Path, count: int) -> tuple[list[str], int]:
    with path.open("rb") as log:
        end = position = log.seek(0, 2)
        data = b""
        while position > 0 and data.count(b"\n") <= count:
            step = min(_BLOCK, position)
            position -= step
            log.seek(position)
            data = log.read(step) + data
    lines = data.decode("utf-8", "replace").splitlines()
    return lines[-count:] if count else [], end
