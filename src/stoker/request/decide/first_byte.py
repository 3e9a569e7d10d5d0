"""How long the first byte of an answer may take, from the moment in which the request is sent. Pure.

1. `first_byte_timeout` as configured                               -> that, for every request; 0: no limit
2. else, for a streamed answer: the least time, or TIMES its        -> and what the prompt takes at READS tokens/s
   measured time to the first byte, whichever is longer
3. else, for an answer in one piece: as 2, and what the answer      -> its first byte comes at its end
   takes at WRITES tokens/s

Both additions are at most MOST. The least time depends on what follows: while another tier is left, the request moves
there after LEAST_BESIDE_ANOTHER and nothing is lost; else it fails, so a serve gets LEAST, and UNMEASURED as long as
its own times are not known: it may load its model first, behind Stoker's back.

Measured: the slowest of 20 of the serve's last answers of that form (from MIN_SEEN of them on); before that, of a tier,
the profile's median time to the end of an answer, the longest of its classes.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LEAST_BESIDE_ANOTHER: Final = 30.0
LEAST: Final = 60.0
UNMEASURED: Final = 120.0
TIMES: Final = 5.0
"""How many times longer than usual is too long."""
READS, WRITES = 500.0, 20.0
"""Tokens per second that a slow serve reads and writes."""
MOST: Final = 600.0
"""Seconds that the prompt adds, and the answer, at most."""
OUTPUT_BESIDE_ANOTHER, OUTPUT = 1024, 4096
"""Tokens of an answer in one piece, where the caller sets no limit."""
MIN_SEEN, REMEMBERED = 5, 64


class FirstByteTimes:
    """The times to the first byte of a serve's last answers, in seconds: streamed ones, and those in one piece. Both
    are added to.
    """

    __slots__ = ("streamed", "whole")

    def __init__(self) -> None:
        self.streamed: deque[float] = deque(maxlen=REMEMBERED)
        self.whole: deque[float] = deque(maxlen=REMEMBERED)

    def usual(self, streams: bool = True) -> float | None:
        """The slowest of 20 of these times; None if too few are known."""
        seen = self.streamed if streams else self.whole
        if len(seen) < MIN_SEEN:
            return None
        return sorted(seen)[int(0.95 * (len(seen) - 1))]


def first_byte_timeout(
    given: float | None, usual: float | None, prompt: int, output: int | None, streams: bool
) -> float | None:
    """Seconds until a request that is sent to a serve fails; None: no limit. `given`: as configured. `usual`: see
    `FirstByteTimes`. `prompt`: estimated tokens. `output`: tokens that the client allows; None: it sets no limit.
    """
    if given is not None:
        return given or None  # 1
    least = UNMEASURED if usual is None else max(LEAST, TIMES * usual)
    return least + _work(prompt, OUTPUT if output is None else output, streams)


def next_tier_after(
    given: float | None, usual: float | None, latency: float | None, prompt: int, output: int | None, streams: bool
) -> float | None:
    """Seconds until a request that is sent to a tier goes to the next one; None: no limit. `latency`: the profile's."""
    if given is not None:
        return given or None  # 1
    measured = usual if usual is not None else latency or 0.0
    least = max(LEAST_BESIDE_ANOTHER, TIMES * measured)
    return least + _work(prompt, OUTPUT_BESIDE_ANOTHER if output is None else output, streams)


def _work(prompt: int, output: int, streams: bool) -> float:
    """Seconds for reading the prompt (2) and, unless the answer streams, for writing the answer (3)."""
    reading = min(MOST, prompt / READS)
    return reading if streams else reading + min(MOST, output / WRITES)
