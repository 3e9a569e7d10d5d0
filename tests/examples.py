"""How many examples a property is tried with: a fifth in the default run, all with `scripts/test --all`."""

from __future__ import annotations

import os

from hypothesis import settings


def examples(number: int, usual: int = 0) -> int:
    """`usual` in the default run, or a fifth, at least ten. Where the examples are the same in each run, a shorter run
    tries the first of them.
    """
    return number if os.environ.get("STOKER_TEST_ALL") else usual or max(10, number // 5)


def load_profile() -> None:
    """What holds for properties that say nothing else. No deadline: how long one example takes is up to the machine."""
    settings.register_profile("stoker", max_examples=examples(100), deadline=None)
    settings.load_profile("stoker")
