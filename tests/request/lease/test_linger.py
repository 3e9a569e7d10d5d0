"""An idle resident is kept while that costs the waiting requests less than bringing it back."""

from __future__ import annotations

import pytest
from tests.request.lease.stage import Stage, replicated, serve

from stoker.request.lease.state import UsualGap
from stoker.request.lease.timing import linger

SWAP_TIME = 10.0
PATIENT = {"patience": 2.0, "max_wait": 1000.0}


def loaded(*names: str, **policy: object) -> Stage:
    """`a` was loaded just now, in 10 s, for one request; that has ended."""
    stage = Stage(*map(serve, names or "ab"), **{**PATIENT, **policy})
    a = stage.request("a")
    stage.ready(after=SWAP_TIME)
    stage.served(a, "a")
    return stage


def use(stage: Stage, gap: float, times: int = 6) -> None:
    """One request for `a` after the other, each `gap` seconds after the end of the one before; each takes 1 s."""
    for _ in range(times):
        stage.to(stage.now + gap)
        a = stage.request("a")
        stage.to(stage.now + 1.0)
        stage.served(a, "a")


def would_be_kept(stage: Stage, waiting: int = 1, gap_of_b: float = 1.0, name: str = "a") -> float:
    """For how many seconds after its last request `a` would be kept, if so many requests waited for `b`, which usually
    is asked for with such gaps.
    """
    b = stage.scheduler.serves["b"]
    b.gap = UsualGap()
    b.gap.add(gap_of_b)
    return linger(stage.scheduler.serves[name], b, waiting)


def kept(stage: Stage, waiting: int = 1) -> float:
    """For how many seconds `a` is kept from now on, if so many requests come for `b`."""
    began = stage.now
    for _ in range(waiting):
        stage.request("b")
    while stage.phase("a") == "ready":
        assert stage.wake is not None
        stage.to(stage.wake)
    return stage.now - began


@pytest.mark.parametrize("waiting", [1, 2, 4])
def test_as_long_as_nothing_is_known_it_is_kept_until_waiting_has_cost_two_swaps(waiting: int) -> None:
    assert would_be_kept(loaded(), waiting) == pytest.approx(2 * SWAP_TIME / waiting)


def test_a_resident_that_usually_is_used_again_soon_is_kept_for_three_such_gaps() -> None:
    stage = loaded()
    use(stage, gap=4.0)
    assert would_be_kept(stage) == pytest.approx(3 * 4.0 + 0.5)


def test_a_resident_that_is_used_now_and_then_leaves_at_once() -> None:
    stage = loaded()
    use(stage, gap=30.0)
    assert would_be_kept(stage) == 0.0


@pytest.mark.parametrize(("gap", "waiting", "seconds"), [(9.0, 1, 12.5), (11.0, 1, 0.0), (4.0, 2, 10.0), (6.0, 2, 0.0)])
def test_it_is_not_kept_for_a_model_that_is_asked_for_now_and_then(gap: float, waiting: int, seconds: float) -> None:
    """Each request for that one needs a swap of its own. What its gap costs is compared with half the price: 10 s."""
    stage = loaded()
    use(stage, gap=4.0)
    assert would_be_kept(stage, waiting, gap) == pytest.approx(seconds)


def test_nor_for_one_that_nobody_has_asked_for_before() -> None:
    stage = loaded()
    use(stage, gap=4.0)
    assert kept(stage) == 0.0


def test_the_more_requests_wait_the_sooner_it_has_to_come_back() -> None:
    stage = loaded()
    use(stage, gap=4.0)
    assert would_be_kept(stage, waiting=3) == pytest.approx(2 * SWAP_TIME / 3)
    stage = loaded()
    use(stage, gap=4.0)
    assert would_be_kept(stage, waiting=6) == 0.0, "six that wait four seconds each wait longer than two swaps take"


def test_new_habits_replace_old_ones() -> None:
    stage = loaded()
    use(stage, gap=30.0)
    use(stage, gap=1.0, times=12)
    assert would_be_kept(stage) == pytest.approx(3.5, abs=0.5)


def test_time_in_which_it_is_used_or_waited_for_is_no_gap() -> None:
    stage = loaded()
    first = stage.request("a")
    stage.to(stage.now + 100.0)
    second = stage.request("a")
    stage.served(first, "a")
    stage.served(second, "a")
    use(stage, gap=2.0, times=10)
    assert would_be_kept(stage) == pytest.approx(6.5, abs=0.5)


def test_replicas_of_a_serve_have_one_habit() -> None:
    stage = Stage(*replicated("a", "gpu0 gpu1"), serve("b", slot="gpu0"), slots="gpu0 gpu1", **PATIENT)
    a = stage.join("a")
    stage.ready(after=SWAP_TIME)
    for _ in range(6):
        stage.served(a, "a@gpu0")
        stage.to(stage.now + 1.0)
        a = stage.join("a")
    stage.served(a, "a@gpu0")
    assert would_be_kept(stage, name="a@gpu0") == pytest.approx(3.5)


def test_a_configured_residency_or_linger_is_kept_whatever_waits() -> None:
    stage = loaded(min_residency=50.0)
    use(stage, gap=30.0, times=1)
    assert kept(stage, waiting=7) == pytest.approx(50.0 - 31.0)
    stage = loaded(linger=7.0)
    use(stage, gap=30.0)
    assert kept(stage, waiting=7) == pytest.approx(7.0)


def test_a_busy_resident_keeps_its_residency() -> None:
    stage = loaded(swap_after=1)
    stage.request("a")
    assert kept(stage, waiting=9) == pytest.approx(2 * SWAP_TIME)
