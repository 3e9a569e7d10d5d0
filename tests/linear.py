"""Whether work grows in proportion to its input, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TIMES = 8
ROUNDS = 6


def assert_linear(make: Callable[[int], T], work: Callable[[T], object], size: int) -> None:
    """Assert that `work` on `make(size)` costs no more than its share of what it costs on an eighth of that, give or
    take a factor of three: quadratic work is above it by eight.

    It is the processor time of this thread that counts, and the least of some tries, which other load can only raise.
    """
    least = {size // TIMES: float("inf"), size: float("inf")}
    for _ in range(ROUNDS):
        for each in least:
            given = make(each)
            began = time.thread_time()
            work(given)
            least[each] = min(least[each], time.thread_time() - began)
        small, large = least.values()
        if large < 3 * TIMES * small:
            return
    raise AssertionError(f"{TIMES} times the input costs {large / small:.0f} times the work: {large:.3f} s")
