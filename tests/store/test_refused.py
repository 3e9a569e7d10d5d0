"""A flood of refusals does not push out the history: few are recorded, and these say how many they stand for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stoker.domain.decision import Decision
from stoker.store.decisions import DecisionLog
from stoker.store.refusal_sampling import BURST, EVERY, KINDS, RefusalSampling
from stoker_lab.testing.clock import FakeClock


def refusal(key: str = "team", reason: str = "unknown_model", **fields: object) -> Decision:
    return Decision("r", 1.0, "/v1/chat/completions", key=key, outcome="refused", reason=reason, **fields)  # type: ignore[arg-type]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def refused(clock: FakeClock) -> RefusalSampling:
    return RefusalSampling(clock.now)


def test_the_first_ones_are_kept_one_by_one_and_then_one_now_and_then(
    refused: RefusalSampling, clock: FakeClock
) -> None:
    assert sum(refused.keeps(refusal()) for _ in range(10_000)) == BURST
    assert refused.unrecorded == 10_000 - BURST
    clock.advance(EVERY)
    next_one = refusal()
    assert refused.keeps(next_one)
    assert next_one.unrecorded == 10_000 - BURST
    assert not refused.keeps(refusal())


def test_a_flood_of_one_kind_hides_no_other(refused: RefusalSampling) -> None:
    for _ in range(10 * BURST):
        refused.keeps(refusal())
    assert refused.keeps(refusal(reason="bad_json"))
    assert refused.keeps(refusal(key="other"))


@pytest.mark.parametrize(
    ("outcome", "attempts"), [("served", 0), ("refused", 1), ("client_left", 0), ("bug", 0), ("cut", 0)]
)
def test_what_was_accepted_or_went_wrong_is_always_kept(refused: RefusalSampling, outcome: str, attempts: int) -> None:
    for _ in range(2 * BURST):
        assert refused.keeps(Decision("r", 1.0, "/", outcome=outcome, attempts=attempts))


def test_kinds_are_not_told_apart_without_end(refused: RefusalSampling) -> None:
    kept = sum(refused.keeps(refusal(reason=f"r{n}")) for n in range(3 * KINDS))
    assert kept == KINDS + BURST


def test_the_history_outlives_a_flood(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path / "d.db", 100, now=lambda: 0.0)
    try:
        for n in range(20):
            log.record(Decision(f"good-{n}", 1.0, "/", outcome="served", attempts=1))
        for _ in range(5_000):
            log.record(refusal())
        deadline = time.monotonic() + 5
        while log.statistics().written < 20 + BURST and time.monotonic() < deadline:
            time.sleep(0.01)
        assert log.find("good-0") is not None
        assert log.statistics().kept == 20 + BURST
        assert log.statistics().unrecorded == 5_000 - BURST
    finally:
        log.close()
