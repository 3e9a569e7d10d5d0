"""How often a serve is started again, how far apart, and when no more."""

from __future__ import annotations

import pytest

from stoker.domain.access import Watchdog
from stoker.fleet.watchdog.watchdog import BACKOFF_CAP, History, Park, Restart, Wait, backoff, decide, decide_after_exit

LIMITS = Watchdog(restarts=3, window=600.0)


def test_the_first_restart_is_at_once_and_the_next_ones_are_further_and_further_apart() -> None:
    assert decide(History(), LIMITS, 0.0) == Restart(1)
    assert decide(History((0.0,)), LIMITS, 9.9) == Wait(10.0)
    assert decide(History((0.0,)), LIMITS, 10.0) == Restart(2)
    assert decide(History((0.0, 10.0)), LIMITS, 29.0) == Wait(30.0)
    assert decide(History((0.0, 10.0)), LIMITS, 30.0) == Restart(3)


def test_one_restart_too_many_within_the_window_parks() -> None:
    used = History((0.0, 10.0, 30.0))
    park = decide(used, LIMITS, 599.0)
    assert isinstance(park, Park)
    assert "3 times within 600 s" in park.reason
    assert decide(used, LIMITS, 600.0) == Restart(3), "the first one is out of the window"


def test_ends_that_nobody_asked_for_count_like_restarts() -> None:
    history = History((0.0,))
    for now in (1.0, 2.0):
        history, park = decide_after_exit(history, LIMITS, now)
        assert park is None
    assert decide(history, LIMITS, 3.0) == Park(
        "it was restarted 3 times within 600 s, the limit of [watchdog] restarts"
    )
    history, park = decide_after_exit(history, LIMITS, 3.0)
    assert park is not None
    assert "3 times" in park.reason
    assert decide_after_exit(history, LIMITS, 900.0) == (History((900.0,)), None), "what is long ago is forgotten"


@pytest.mark.parametrize(("allowed", "said"), [(0, "0 times"), (1, "once")])
def test_a_small_budget_is_spent_as_it_says(allowed: int, said: str) -> None:
    limits = Watchdog(restarts=allowed)
    history = History()
    for _ in range(allowed):
        history, park = decide_after_exit(history, limits, 0.0)
        assert park is None
    _, park = decide_after_exit(history, limits, 0.0)
    assert park is not None
    assert said in park.reason


def test_the_back_off_doubles_up_to_its_cap() -> None:
    assert [backoff(n) for n in range(1, 6)] == [10.0, 20.0, 40.0, 80.0, BACKOFF_CAP]
    assert backoff(10_000) == BACKOFF_CAP
