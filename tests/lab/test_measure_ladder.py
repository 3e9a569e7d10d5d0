"""Which rung comes next, and where the knee is."""

from __future__ import annotations

import pytest

from stoker_lab.load.ladder import LadderStop, Rung, has_changed, knee, next_clients, open_rates, rerun_change


def rungs(*rates: float | None, **last: object) -> list[Rung]:
    found = [Rung(2**n, rate, rate and rate / 10) for n, rate in enumerate(rates)]
    return [*found[:-1], found[-1]._replace(**last)] if found else []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("done", "then"),
    [
        ([], 1),
        (rungs(100), 2),
        (rungs(100, 190), 4),
        (rungs(100, 101), 4),  # once is not twice
        (rungs(100, 101, 102), LadderStop.SATURATED),
        (rungs(100, 104, 104), LadderStop.SATURATED),
        (rungs(100, 101, 120), 8),
        (rungs(100, 190, 191, 192), LadderStop.SATURATED),
        (rungs(100, 190, 50), 8),  # a dip may be noise: the next one tells
        (rungs(100, 190, 50, 40), LadderStop.SATURATED),
        (rungs(100, 190, failed=0.01), 4),
        (rungs(100, 190, failed=0.011), LadderStop.FAILING),
        (rungs(100, 190, good=0.9), 4),
        (rungs(100, 190, good=0.89), LadderStop.SLOW),
        (rungs(100, 190, is_full=True), LadderStop.FULL),
        (rungs(100, 190, failed=1.0, good=0.0, is_full=True), LadderStop.FAILING),  # the first reason counts
        (rungs(*(100 * 2**n for n in range(9))), LadderStop.TOP),
    ],
)
def test_the_next_rung(done: list[Rung], then: int | LadderStop) -> None:
    assert next_clients(done) == then


def test_the_top_may_be_lower() -> None:
    assert next_clients(rungs(1, 2, 4, 8), top=8) is LadderStop.TOP


@pytest.mark.parametrize(
    ("done", "clients"),
    [
        ([], None),
        (rungs(100), 1),
        (rungs(100, 190, 300, 310, 312), 4),
        (rungs(100, 104, 108, 112), 4),  # slowly, but 8 % above the first
        (rungs(100, 190, 400, good=0.5), 2),
        (rungs(100, 190, 400, failed=0.5), 2),
        (rungs(100, failed=1.0), None),
    ],
)
def test_the_knee(done: list[Rung], clients: int | None) -> None:
    found = knee(done)
    assert (None if found is None else found.clients) == clients


def test_without_usage_requests_count_instead_of_tokens() -> None:
    done = [Rung(1, None, 5.0), Rung(2, None, 9.0), Rung(4, None, 9.1)]
    found = knee(done)
    assert found is not None
    assert (found.clients, next_clients(done)) == (2, 8)


def test_open_loop_rates_are_shares_of_the_knee() -> None:
    assert open_rates(rungs(100, 200, 201, 202)) == [10.0, 16.0, 19.0]
    assert open_rates([]) == []
    assert open_rates([Rung(1, None)]) == []


@pytest.mark.parametrize(("again", "has"), [(100.0, False), (104.9, False), (95.1, False), (106.0, True), (94.0, True)])
def test_more_than_five_percent_between_the_first_rung_and_itself_is_a_drift(again: float, has: bool) -> None:
    assert has_changed(Rung(1, 100.0), Rung(1, again)) is has


def test_nothing_to_compare_is_no_drift() -> None:
    assert rerun_change(Rung(1, 0.0), Rung(1, 5.0)) is None
    assert not has_changed(Rung(1, 0.0), Rung(1, 5.0))
