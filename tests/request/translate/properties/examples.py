"""How many examples a property is tried with: a third in the default run, all with `scripts/test --all`."""

from __future__ import annotations

import os


def examples(number: int) -> int:
    """The examples are the same in each run, and a shorter run tries the first of them."""
    return number if os.environ.get("STOKER_TEST_ALL") else max(10, number // 3)
