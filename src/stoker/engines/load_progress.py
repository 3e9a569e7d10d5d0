"""How much of a model is loaded, as engines print it while they start. Reads only the end of the log."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL = 8 * 2**10
_SHARE = re.compile(r"(?i)(?:load|shard|checkpoint|progress)[^\n\r%]{0,120}?\b(\d{1,3})(?:\.\d+)?\s?%")
"""vLLM and SGLang: `Loading safetensors checkpoint shards:  50% Completed | 2/4`."""
_DOTS = re.compile(r"(?:^|\n)(\.{1,100})\Z")
"""llama.cpp: one dot for each percent of the weights, on a line of their own."""


def percent(log: Path, start: int) -> int | None:
    """The progress of the start whose output begins at byte `start`; None if it prints none. Never raises."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start if start <= size else 0, size - _TAIL))  # smaller: it was rotated in between
            return percent_of(file.read(_TAIL).decode("utf-8", "replace"))
    except OSError:
        return None


def percent_of(text: str) -> int | None:
    """The last share in the text."""
    if dots := _DOTS.search(text):
        return len(dots[1])
    shares = [int(found) for found in _SHARE.findall(text)]
    return shares[-1] if shares and shares[-1] <= 100 else None
