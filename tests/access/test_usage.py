"""Usage: every request and every call of a serve is in exactly one row, whatever happens to the disk."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stoker.access.access_file import USAGE_COLUMNS, AccessFile, UsageRow
from stoker.access.usage import HOUR, STOKER, UsageTotals, amounts_of
from stoker.access.usage_report import usage_report
from stoker.domain.decision import Decision
from stoker.domain.key import Key
from stoker.domain.serve import Secret
from stoker.domain.tier import Cost
from stoker.domain.usage import MediaUnits, ServeUsage

KEY = Key("ann", Secret("k" * 16, "env:K"), app="team")


class Clock:
    now = 10.0 * HOUR

    def __call__(self) -> float:
        return self.now


def ended(serve: str = "s", outcome: str = "served", **fields: object) -> Decision:
    return Decision("r", 0.0, "/v1/chat/completions", serve=serve, outcome=outcome, **fields)  # type: ignore[arg-type]


def by_place(rows: list[UsageRow]) -> dict[tuple[object, ...], dict[str, float]]:
    return {place: {k: v for k, v in zip(USAGE_COLUMNS, amounts, strict=True) if v} for place, amounts in rows}


def test_a_request_counts_what_each_serve_used_that_it_asked() -> None:
    totals = UsageTotals(Clock())
    totals.configure({"cloud": Cost(1.0, 2.0)})
    totals.record(KEY, ended("cloud"), [ServeUsage("s", 100, 10, 40, 3, 0.5), ServeUsage("cloud", 200, 20)])
    assert by_place(totals.take()) == {
        (10, "ann", "team", "cloud", ""): {"requests": 1, "input": 200, "output": 20, "cost": 240 / 1e6},
        (10, "ann", "team", "s", ""): {
            "input": 100, "output": 10, "cached": 40, "reasoning": 3, "accelerator_seconds": 0.5,
        },
    }  # fmt: skip
    assert totals.take() == []


def test_energy_is_the_accelerator_time_at_the_power_of_the_serve_where_that_is_known() -> None:
    totals = UsageTotals(Clock())
    totals.watts_of = {"s": 200.0}.get
    totals.record(KEY, ended("s"), [ServeUsage("s", 100, 10, accelerator_seconds=0.5)])
    totals.record(KEY, ended("s"), [ServeUsage("s", 100, 90, accelerator_seconds=1.5)])
    totals.record(KEY, ended("other"), [ServeUsage("other", 100, 50, accelerator_seconds=3.0)])
    rows = totals.take()
    [known, unknown] = usage_report(rows, ("model",))
    if known["model"] != "s":
        known, unknown = unknown, known
    assert (known["joules"], known["joules_per_1000_tokens"]) == (400.0, 4000.0)
    assert (unknown["joules"], unknown["joules_per_1000_tokens"]) == (None, None)
    [total] = usage_report(rows, ())
    assert total["joules_per_1000_tokens"] == 4000.0, "tokens of unknown energy do not count"


def test_cached_tokens_cost_what_they_cost() -> None:
    totals = UsageTotals(Clock())
    prices = {"cloud": Cost(2.0, 10.0, 0.2, 2.5)}
    totals.configure(prices)
    used = ServeUsage("cloud", 1000, 10, 600, cache_written=300)
    money = (100 * 2.0 + 600 * 0.2 + 300 * 2.5 + 10 * 10.0) / 1e6
    assert amounts_of([used], prices) == (1000, 10, pytest.approx(money))
    totals.record(KEY, ended("cloud"), [used])
    (amounts,) = by_place(totals.take()).values()
    assert (amounts["cost"], amounts["cache_written"]) == (pytest.approx(money), 300)


def test_numbers_that_a_serve_did_not_report_count_as_nothing() -> None:
    totals = UsageTotals(Clock())
    totals.record(KEY, ended(outcome="upstream_failed"), [ServeUsage("s")])
    assert by_place(totals.pending()) == {(10, "ann", "team", "s", ""): {"requests": 1, "failed": 1}}


@pytest.mark.parametrize(
    ("outcome", "status", "failed"),
    [
        ("served", 200, 0), ("client_left", 200, 0), ("refused", 404, 0), ("refused", 429, 0), ("refused", 503, 1),
        ("upstream_failed", 200, 1), ("cut", 200, 1), ("stalled", 504, 1), ("bug", 500, 1),
    ],
)  # fmt: skip
def test_what_is_a_clients_own_doing_is_no_failure(outcome: str, status: int, failed: int) -> None:
    totals = UsageTotals(Clock())
    totals.record(KEY, ended(outcome=outcome, status=status), [])
    ((_, amounts),) = totals.pending()
    assert dict(zip(USAGE_COLUMNS, amounts, strict=True))["failed"] == failed


def test_looking_at_what_is_pending_changes_nothing() -> None:
    totals = UsageTotals(Clock())
    for _ in range(3):
        totals.record(KEY, ended(), [ServeUsage("s", 7, 1)])
        assert by_place(totals.pending()) == by_place(totals.pending())
    assert by_place(totals.take())[10, "ann", "team", "s", ""] == {"requests": 3, "input": 21, "output": 3}


def test_what_could_not_be_written_keeps_its_hour_and_waits_with_what_comes() -> None:
    clock = Clock()
    totals = UsageTotals(clock)
    totals.record(KEY, ended(), [ServeUsage("s", 5, 1)])
    totals.give_back(totals.take())
    totals.record(KEY, ended(), [ServeUsage("s", 6, 1)])
    totals.give_back(totals.take())
    clock.now += HOUR
    totals.record(KEY, ended(), [ServeUsage("s", 7, 1)])
    assert by_place(totals.take()) == {
        (10, "ann", "team", "s", ""): {"requests": 2, "input": 11, "output": 2},
        (11, "ann", "team", "s", ""): {"requests": 1, "input": 7, "output": 1},
    }


def test_new_prices_do_not_change_what_was_used_before() -> None:
    totals = UsageTotals(Clock())
    totals.configure({"s": Cost(1.0, 1.0)})
    totals.record(KEY, ended(), [ServeUsage("s", 1_000_000, 0)])
    totals.configure({"s": Cost(5.0, 5.0)})
    totals.record(KEY, ended(), [ServeUsage("s", 1_000_000, 0)])
    assert sum(row["cost"] for row in (by_place([row])[row[0]] for row in totals.take())) == 6.0


def test_streams_count_their_speed_unless_they_came_at_once() -> None:
    totals = UsageTotals(Clock())
    totals.record(KEY, ended(stream=True, ttft=0.2, latency=1.2, output_tokens=50), [])
    totals.record(KEY, ended(stream=True, ttft=0.4, latency=0.41, output_tokens=50), [])
    row = by_place(totals.take())[10, "ann", "team", "s", ""]
    assert (row["ttft_count"], round(row["ttft_sum"], 6)) == (2, 0.6)
    assert (row["decode_tokens"], round(row["decode_seconds"], 6)) == (50, 1.0)


def test_what_stoker_asks_itself_is_under_its_own_name() -> None:
    totals = UsageTotals(Clock())
    totals.record_own(ServeUsage("judge", 30, 2))
    totals.record_swap("ann", "team", "s", 4.0)
    assert by_place(totals.take()) == {
        (10, STOKER, "", "judge", ""): {"requests": 1, "input": 30, "output": 2},
        (10, "ann", "team", "s", ""): {"swap_seconds": 4.0},
    }


def test_audio_and_images_are_added_up_beside_tokens() -> None:
    totals = UsageTotals(Clock())
    totals.record(KEY, ended(media=MediaUnits(audio_seconds=2.5)), [ServeUsage("s")])
    totals.record(KEY, ended(media=MediaUnits(audio_seconds=1.0, characters=7)), [ServeUsage("s")])
    totals.record(KEY, ended(media=MediaUnits(images=4)), [ServeUsage("s", 7)])
    amounts = {"requests": 3, "input": 7, "audio_seconds": 3.5, "characters": 7, "images": 4}
    assert by_place(totals.take()) == {(10, "ann", "team", "s", ""): amounts}


def test_a_file_of_an_earlier_version_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "access.db"
    file = AccessFile(path)
    file.add([((10, "ann", "team", "s", ""), range(len(USAGE_COLUMNS)))], [])
    file.close()
    with sqlite3.connect(path) as db:
        for name in USAGE_COLUMNS[-4:]:
            db.execute(f"ALTER TABLE usage DROP COLUMN {name}")
    db.close()
    file = AccessFile(path)
    file.add([((10, "ann", "team", "s", ""), [1] * len(USAGE_COLUMNS))], [])
    ((_, amounts),) = file.usage(10, 10)
    file.close()
    assert list(amounts) == [*range(1, len(USAGE_COLUMNS) - 3), 1, 1, 1, 1]
