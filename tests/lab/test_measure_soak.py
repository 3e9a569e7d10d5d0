"""The soak under a clock that a test moves: when cycles start, what is told, what counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from stoker.domain.run import Outcome
from stoker_lab.canary.canary import Anomaly
from stoker_lab.soak import soak
from stoker_lab.soak.schedule import CycleSchedule
from stoker_lab.soak.soak import DecodeResult, Soak, SoakRecord
from stoker_lab.testing.clock import FakeClock

MINUTE = 60.0


class Times(FakeClock):
    """Sleeps at once. `then` happens when so many seconds have passed."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeps = 0
        self.then: list[tuple[float, Callable[[], None]]] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        assert seconds > 0
        self.advance(seconds)
        for at, act in [one for one in self.then if one[0] <= self.now()]:
            self.then.remove((at, act))
            act()

    def set_wall(self, by: float) -> None:
        self._wall += by


class Work:
    """A model that does as it is told: each cycle takes `takes` seconds."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self.takes = 5.0
        self.pid: str | None = "process 1"
        self.canaries = 0
        self.anomalies: dict[int, Anomaly] = {}
        self.rates: list[DecodeResult] = []
        self.during: dict[int, Callable[[], None]] = {}

    async def canary(self) -> tuple[int, list[Anomaly]]:
        self.canaries += 1
        self.times.advance(self.takes)
        self.during.get(self.canaries, lambda: None)()
        found = self.anomalies.get(self.canaries)
        return 16, [found] if found else []

    async def decode(self) -> DecodeResult:
        return self.rates.pop(0) if self.rates else DecodeResult(100.0, 0.01, 0)

    async def engine(self) -> str | None:
        return self.pid


class Stage:
    def __init__(self, every: float = 10 * MINUTE, length: float = 60 * MINUTE) -> None:
        self.times = Times()
        self.work = Work(self.times)
        raw = msgspec.Raw(b"{}")
        self.record = SoakRecord("id", "a", self.times.wall(), every, length, 8, 512, raw, engine="process 1")
        self.kept: list[bytes] = []
        self.told: list[str] = []

    def run(self) -> SoakRecord:
        keep: Callable[[SoakRecord], None] = lambda record: self.kept.append(msgspec.json.encode(record))  # noqa: E731
        asyncio.run(Soak(self.record, self.work, self.times, keep, self.told.append).run())
        return self.record

    def starts(self) -> list[float]:
        return [round(cycle.elapsed / MINUTE, 2) for cycle in self.record.cycles]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.record.events]


def test_given_a_soak_of_an_hour_with_a_period_of_ten_minutes_then_six_cycles_start_and_it_ends_at_the_deadline() -> (
    None
):
    """Behaviour 56."""
    stage = Stage()
    stage.run()
    assert stage.starts() == [0, 10, 20, 30, 40, 50]
    assert stage.kinds() == ["began", "ended"]
    assert stage.record.events[-1].elapsed == pytest.approx(60 * MINUTE)
    assert stage.times.now() == pytest.approx(60 * MINUTE)
    assert stage.times.sleeps <= 60 * MINUTE / soak.CHECK_INTERVAL + 6, "it does not spin"
    assert soak.outcome(stage.record) is Outcome.PASSED
    assert soak.numbers(stage.record)["output_rate"] == 100.0


@pytest.mark.parametrize(
    ("every", "length", "cycles"), [(600, 3600, 6), (600, 3601, 7), (7, 21, 3), (600, 60, 1), (0.1, 0.3, 3)]
)
def test_how_many_cycles_there_are(every: float, length: float, cycles: int) -> None:
    assert CycleSchedule(every, length).cycles == cycles


def test_a_cycle_that_takes_too_long_leaves_the_others_where_they_are() -> None:
    stage = Stage()
    stage.work.takes = 13 * MINUTE
    stage.run()
    assert stage.starts() == [0, 20, 40]
    assert stage.kinds().count("missed") == 3
    assert soak.numbers(stage.record)["missed"] == 3


def test_a_clock_that_is_set_moves_no_cycle_and_is_told() -> None:
    stage = Stage()
    stage.times.then = [(905.0, lambda: stage.times.set_wall(-7200.0))]
    stage.run()
    assert stage.starts() == [0, 10, 20, 30, 40, 50]
    assert stage.kinds() == ["began", "clock_jump", "ended"]
    assert "-7200 s" in stage.record.events[1].text
    assert soak.findings(stage.record)[0].name == "clock_jump"


def test_a_machine_that_slept_misses_cycles_and_says_so() -> None:
    stage = Stage()
    stage.times.then = [(905.0, lambda: stage.times.advance(27 * MINUTE))]
    stage.run()
    assert stage.starts() == [0, 10, 50]
    assert stage.kinds() == ["began", "suspended", "missed", "missed", "missed", "ended"]
    assert stage.record.events[-1].elapsed == pytest.approx(60 * MINUTE)


def test_an_anomaly_is_told_excluded_and_never_hidden() -> None:
    stage = Stage()
    stage.work.anomalies = {3: Anomaly("sum", "the reply differs", [False] * 3, [False] * 25)}
    record = stage.run()
    assert [cycle.excluded for cycle in record.cycles] == ["", "", "anomaly: sum", "", "", ""]
    assert soak.outcome(record) is Outcome.PASSED
    assert soak.numbers(record)["anomalies"] == 1
    assert [finding.name for finding in soak.findings(record)] == ["cycle-3.sum"]
    report = "\n".join(soak.timeline(record))
    assert "0:20:00  cycle 3: 15 of 16 as before" in report
    assert "0 of 3 repeats and 0 of 25 more differed: it happened once" in report
    assert "excluded: cycle 3 (anomaly: sum)" in report
    stage.record.cycles[2].anomalies[0].reruns = [True] * 3
    assert soak.outcome(record) is Outcome.FAILED


def test_a_slow_cycle_and_a_failed_request_are_repeated_at_once() -> None:
    stage = Stage()
    good, slow, broken = (
        DecodeResult(100.0, 0.01, 0),
        DecodeResult(70.0, 0.02, 0),
        DecodeResult(None, None, 2, "broke_off"),
    )
    fast, less = DecodeResult(105.0, 0.01, 0), DecodeResult(90.0, 0.01, 0)
    stage.work.rates = [good, fast, less, slow, good, good, good, broken, broken, broken, broken]
    record = stage.run()
    first, second = record.anomalies
    assert (first.reason, first.reruns, first.is_persistent) == (
        "70.0 tokens/s, clean cycles had 100.0 (90.0 to 105.0)",
        [False] * 3,
        False,
    )
    assert (second.reason, second.is_persistent) == ("2 of 8 requests failed (broke_off)", True)
    assert soak.outcome(record) is Outcome.FAILED
    assert min(record.rates) == 90.0


def test_where_clean_cycles_are_far_apart_a_slow_one_is_nothing() -> None:
    stage = Stage()
    stage.work.rates = [DecodeResult(rate, 0.01, 0) for rate in (100.0, 60.0, 100.0, 70.0, 65.0, 100.0)]
    assert not stage.run().anomalies


def test_a_death_between_cycles_and_one_within_are_seen() -> None:
    stage = Stage()

    def become(pid: str | None) -> Callable[[], None]:
        return lambda: setattr(stage.work, "pid", pid)

    stage.times.then = [(700.0, become(None)), (800.0, become("")), (900.0, become("process 2"))]
    stage.work.during = {4: become("process 3")}
    record = stage.run()
    assert stage.kinds() == ["began", "engine_died", "engine_back", "engine_died", "ended"]
    assert [event.text for event in record.deaths] == [
        "process 1 is gone",
        "process 2 is gone; process 3 runs in its place",
    ]
    assert [cycle.excluded for cycle in record.cycles] == ["", "", "", "the engine died", "", ""]
    assert soak.outcome(record) is Outcome.FAILED
    assert soak.numbers(record)["engine_deaths"] == 2
    assert "engine died: process 2 is gone" in "\n".join(stage.told)


def test_a_soak_that_broke_off_goes_on_where_it_was() -> None:
    stage = Stage()

    def killed() -> None:
        raise KeyboardInterrupt

    stage.times.then = [(1300.0, killed)]
    with pytest.raises(KeyboardInterrupt):
        stage.run()
    assert soak.outcome(stage.record) is Outcome.INTERRUPTED
    stage.record = msgspec.json.decode(stage.kept[-1], type=SoakRecord)
    stage.times.advance(15 * MINUTE)  # nobody ran
    stage.run()
    assert stage.starts() == [0, 10, 20, 40, 50]
    assert stage.kinds() == ["began", "resumed", "missed", "ended"]
    assert soak.outcome(stage.record) is Outcome.PASSED
    assert len({cycle.number for cycle in stage.record.cycles}) == 5


def test_without_a_clean_cycle_nothing_passed() -> None:
    stage = Stage(every=600, length=600)
    stage.work.anomalies = {1: Anomaly("sum", "it differs")}
    record = stage.run()
    assert soak.outcome(record) is Outcome.FAILED
    assert soak.numbers(record)["output_rate"] is None
    assert "clean cycles: 0 of 1" in soak.summary(record)
