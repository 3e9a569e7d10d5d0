"""`decisions --routes`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.test_cli_following import made

from stoker.cli.main import run
from stoker.domain.decision import Attempt
from stoker.domain.tier import LIVE, ProfileRow, Verdict
from stoker.store.decisions import DecisionLog
from stoker.store.profile import encode as encode_profile
from stoker_auto.quality.live_grades_file import encode
from stoker_auto.spending import DailySpending

TIERS = """
[[tier]]
name = "cheap"
serve = "fast"

[[tier]]
name = "dear"
base_url = "https://api.example.com/v1"
model = "big"
cost = { input = 10.0, output = 100.0 }
"""


@pytest.fixture
def log(config: Path) -> Iterator[DecisionLog]:
    config.write_text(config.read_text() + TIERS)
    log = DecisionLog(config.parent / "state" / "decisions.db", 100)
    yield log
    log.close()


def kept(log: DecisionLog) -> None:
    cheap = Attempt("cheap", "served", 1000, 100, 0.0)
    bad = Attempt("cheap", "failed_verification", 1000, 100, 0.0, repairs=1, findings=["json"])
    for number in range(3):
        log.record(made(number, cheap))
    log.record(made(4, bad, Attempt("dear", "served", 1000, 100, 0.02)))
    log.record(made(5))
    log.record(made(6, task="planning", reason="no_tier"))
    log.close()


def test_routes_are_told_by_class_and_tier_with_rates_and_money(
    log: DecisionLog, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(log)
    measured(config)
    assert run(["decisions", "--routes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        "chat",
        "cheap",
        "4",
        "4",
        "3",
        "0.75",
        "(0.30-0.95)",
        "1",
        "1",
        "0",
        "0.06",
        "json",
        "1",
    ]
    assert lines[2].split() == ["chat", "dear", "1", "0", "0", "-", "0", "0", "0.02", "0", "-"]
    assert lines[3].split()[0] == "all"
    assert "5 of 6 recorded requests were routed; 1 of them was sent to no tier" in lines
    assert (
        "silent failures  not measured: no answer was graded (see [router.shadow], and `routing.shadow` in /status)"
        in lines
    )
    assert "saved            0.06 of the 0.08 that the most expensive cloud tier would have cost" in lines
    assert lines[-1].startswith("other costs      subtracted: escalations 0, repairs about 0; ")


def test_the_same_for_programs(log: DecisionLog, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(log)
    measured(config)
    assert run(["decisions", "--routes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["recorded"], found["routed"], found["untried"], found["silent_failures"]) == (6, 5, 1, None)
    cheap, dear = found["rows"]
    assert (cheap["accept_rate"], cheap["escalation_rate"]) == (0.75, 0.25)
    assert cheap["accept_interval"] == [pytest.approx(0.3006, abs=1e-4), pytest.approx(0.9544, abs=1e-4)]
    assert (dear["accept_rate"], dear["accept_interval"]) == (None, None)
    assert found["total"]["saved"] == pytest.approx(0.06)


def measured(config: Path, verdict: Verdict = Verdict.ALLOW) -> None:
    rows = [ProfileRow(tier, "chat", "i", "e", 30, 30, verdict) for tier in ("cheap", "dear")]
    (config.parent / "state" / "profile.json").write_bytes(encode_profile(rows))


def test_what_nobody_measured_has_no_rate_and_saves_nothing(
    log: DecisionLog, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(log)
    assert run(["decisions", "--routes"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[1].split()[5:7] == ["unmeasured", "1"]
    assert (
        "4 of 4 first tries: nobody knows how good these answers were; measure the tiers: stoker eval bootstrap" in told
    )
    assert "saved            unknown: nothing was measured at these classes" in told


def test_a_profile_that_cannot_be_read_measures_nothing(
    log: DecisionLog, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(log)
    (config.parent / "state" / "profile.json").write_bytes(b"{")
    assert run(["decisions", "--routes"]) == 0
    said = capsys.readouterr()
    assert "nothing counts as measured here" in said.err
    assert "unmeasured" in said.out


def grades(config: Path, *rows: tuple[str, str, int, int]) -> Path:
    path = config.parent / "state" / "live.json"
    listed = [
        ProfileRow(tier, name, "i", "e", n, passed, Verdict.VERIFY, source=LIVE) for tier, name, passed, n in rows
    ]
    path.write_bytes(encode({(row.tier, row.task_class): row for row in listed}, DailySpending()))
    return path


def test_silent_failures_are_told_by_class_and_in_all_with_their_interval(
    log: DecisionLog, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(log)
    grades(config, ("cheap", "chat", 60, 60), ("dear", "chat", 19, 20), ("cheap", "math-short", 38, 40))
    assert run(["decisions", "--routes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("silent failures  3 of 120 graded answers wrong: 0.025 (0.009-0.071)")
    assert lines[at + 1 : at + 3] == [
        "  chat           1 of 80 graded answers wrong: 0.013 (0.002-0.067)",
        "  math-short     2 of 40 graded answers wrong: 0.050 (0.014-0.165)",
    ]
    assert run(["decisions", "--routes", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["silent_failures"]
    assert (found["wrong"], found["graded"], found["rate"]) == (3, 120, 0.025)
    assert found["interval"] == [pytest.approx(0.0085, abs=1e-4), pytest.approx(0.0709, abs=1e-4)]
    assert found["classes"]["math-short"]["wrong"] == 2


def test_grades_of_one_class_are_one_line_and_one_answer_is_no_plural(
    log: DecisionLog, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(log)
    grades(config, ("cheap", "chat", 1, 1))
    assert run(["decisions", "--routes"]) == 0
    told = capsys.readouterr().out
    assert "1 graded answer wrong: 0.000 (0.000-0.793)" in told
    assert told.count("graded") == 1


def test_grades_that_cannot_be_read_are_told_of_and_the_rest_is_shown(
    log: DecisionLog, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(log)
    path = grades(config)
    path.write_text("{")
    assert run(["decisions", "--routes"]) == 0
    captured = capsys.readouterr()
    assert "silent failures  not measured" in captured.out
    assert "is not a file of live grades" in captured.err
    path.unlink()
    path.mkdir()
    assert run(["decisions", "--routes"]) == 0
    assert "cannot be read" in capsys.readouterr().err


def test_where_nothing_was_routed_the_next_step_is_told(log: DecisionLog, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decisions", "--routes"]) == 0
    captured = capsys.readouterr()
    assert "no routed requests" in captured.out
    assert "stoker route" in captured.err


def test_without_a_cloud_nothing_is_said_to_be_saved(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = DecisionLog(config.parent / "state" / "decisions.db", 100)
    kept(log)
    assert run(["decisions", "--routes"]) == 0
    assert "saved            unknown" in capsys.readouterr().out
