"""How long a tier may take for the first byte of its answer while another tier is there. Pure.

1. the tier's own `first_byte_timeout`                              -> that, for every request; 0: no limit
2. else, for a streamed answer: LEAST, or TIMES its measured time   -> and what the prompt takes at READS tokens/s
   to the first byte, whichever is longer
3. else, for an answer in one piece: as 2, and what the answer      -> its first byte comes at its end
   takes at WRITES tokens/s

Measured: the slowest of 20 of the tier's last streamed answers (from MIN_SEEN of them on); before that the profile's
median time to the end of an answer, the longest of its classes.
"""

from __future__ import annotations

from collections import deque

LEAST = 30.0
TIMES = 5.0
"""How many times longer than usual is too long."""
READS, WRITES = 500.0, 20.0
"""Tokens per second that a slow tier reads and writes."""
OUTPUT = 1024
"""Tokens of an answer in one piece, where the caller sets no limit."""
MIN_SEEN, REMEMBERED = 5, 64


class FirstByteTimes:
    """The times to the first byte of one tier's last streamed answers, in seconds."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=REMEMBERED)

    def add(self, seconds: float) -> None:
        self._seen.append(seconds)

    @property
    def usual(self) -> float | None:
        """The slowest of 20 of these times; None if too few are known."""
        if len(self._seen) < MIN_SEEN:
            return None
        return sorted(self._seen)[int(0.95 * (len(self._seen) - 1))]


def first_byte_timeout(
    given: float | None, usual: float | None, latency: float | None, prompt: int, output: int | None, streams: bool
) -> float | None:
    """Seconds; None: no limit. `given`: as configured. `usual`: see `FirstByteTimes`. `latency`: the profile's.
    `prompt`: estimated tokens. `output`: tokens that the client allows.
    """
    if given is not None:
        return given or None  # 1
    measured = usual if usual is not None else latency or 0.0
    seconds = max(LEAST, TIMES * measured) + prompt / READS  # 2
    return seconds if streams else seconds + (OUTPUT if output is None else output) / WRITES  # 3
