"""`stoker profile`: shown, compared, taken over, and every way in which a profile can be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.fake_stoker import FakeStoker

from stoker.cli.main import run
from stoker.domain.tier import Demotion, GradedRow, ProfileRow, Verdict
from stoker.store.profile import encode
from stoker_auto.quality.demotions_file import Demotions, path_of
from stoker_auto.quality.live_grades_file import encode as live
from stoker_auto.spending import DailySpending

TIERS = """
[[tier]]
name = "cheap"
serve = "fast"
"""


def row(task_class: str = "chat", passed: int = 27, n: int = 27, **more: Any) -> ProfileRow:
    verdict = more.pop("verdict", Verdict.ALLOW)
    return ProfileRow(
        more.pop("tier", "cheap"), task_class, "i", "e", n, passed, verdict, 0.25, "bootstrap", "d", **more
    )


@pytest.fixture
def profile(config: Path) -> Path:
    """Where the profile of a configuration with one tier lies; nothing is there yet."""
    config.write_text(config.read_text() + TIERS)
    return config.parent / "state" / "profile.json"


def write(path: Path, *rows: ProfileRow) -> Path:
    path.write_bytes(encode(rows))
    return path


# -- show -----------------------------------------------------------------------------------------------------------


def test_what_was_measured_is_shown_by_tier_and_class(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(profile, row("planning", 0, 3, verdict=Verdict.DENY, at=0.0), row("chat"))
    assert run(["profile", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["cheap", "chat", "allow", "27", "of", "27", "0.88", "250", "ms", "bootstrap", "-", "-"]
    assert lines[2].split()[:6] == ["cheap", "planning", "deny", "0", "of", "3"]


def test_what_counts_no_longer_is_marked_while_something_runs_that_knows_it(
    profile: Path, stoker: FakeStoker, capsys: pytest.CaptureFixture[str]
) -> None:
    write(profile, row("chat"), row("planning"))
    stale = [{"tier": "cheap", "class": "planning", "why": "changed since it was measured (27 of 27 passed)"}]
    stoker.answer("GET /status", {"routing": {"stale": stale}})
    assert run(["profile", "show"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[1].split()[2:4] == ["allow", "27"]
    assert lines[2].split()[2:4] == ["allow", "(stale)"]
    assert lines[3] == "cheap at planning: changed since it was measured (27 of 27 passed)"
    assert "stoker eval calibrate" in captured.err
    assert run(["profile", "show", "--json"]) == 0
    assert [one["stale"] for one in json.loads(capsys.readouterr().out)] == ["", stale[0]["why"]]


def test_whether_rows_still_count_is_not_guessed_while_nothing_runs(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(profile, row("chat"))
    assert run(["profile", "show"]) == 0
    assert "only a running Stoker knows which rows are stale; start it: stoker up --config" in capsys.readouterr().err


def graded(profile: Path, *rows: ProfileRow) -> None:
    path = profile.with_name("live.json")
    found = [GradedRow(*(getattr(one, name) for name in ProfileRow.__struct_fields__)) for one in rows]
    path.write_bytes(live({(one.tier, one.task_class): one for one in found}, DailySpending()))


def test_grades_of_live_answers_stand_beside_what_was_measured(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(profile, row("chat"), row("review"))
    wrong = row("chat", 12, 20, verdict=Verdict.DENY)
    graded(profile, wrong, row("creative", 5, 6, verdict=Verdict.VERIFY))
    assert run(["profile", "show"]) == 0
    text = capsys.readouterr().out
    assert "cheap at chat: its live grades do not count: they are of a judge that is not configured now" in text
    lines = [line.replace(" (not counted)", "").split() for line in text.splitlines()]
    assert lines[0][-1] == "LIVE"
    assert lines[1][-4:] == ["deny,", "12", "of", "20"]
    assert lines[2] == ["cheap", "creative", "not", "measured", "-", "-", "-", "-", "-",
                        "allow-with-verify,", "5", "of", "6"]  # fmt: skip
    assert lines[3][-1] == "-"
    assert run(["profile", "show", "--json"]) == 0
    chat, creative, review = json.loads(capsys.readouterr().out)
    assert (chat["verdict"], chat["live"]["verdict"], chat["live"]["passed"]) == ("allow", "deny", 12)
    assert (creative["tier"], creative["task_class"], creative["verdict"], creative["n"]) == (
        "cheap", "creative", None, None,
    )  # fmt: skip
    assert creative["live"]["n"] == 6
    assert review["live"] is None


def test_nothing_measured_says_what_holds_then_and_what_to_run(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", "show"]) == 0
    captured = capsys.readouterr()
    assert "nothing is measured yet" in captured.out
    assert "stoker eval bootstrap" in captured.err
    assert run(["profile", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_row_for_programs_is_the_row_of_the_file(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(profile, row())
    assert run(["profile", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{**msgspec.to_builtins(row()), "live": None, "stale": None}]


@pytest.mark.parametrize("words", [["show"], ["diff"], ["export"], ["import", "x.json"]])
def test_without_tiers_there_is_no_profile(config: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    write(Path("x.json"), row())
    assert run(["profile", *words]) == 2
    assert "no [[tier]] is configured" in capsys.readouterr().err


WRONG = {
    "is not a quality profile": b"{",
    "is not a quality profile: Object missing required field": b"{}",
    "is not a quality profile: Expected": b'{"version": 1, "rows": 3}',
    "is not a quality profile: Object contains unknown field": b'{"version": 1, "rows": [], "more": 1}',
    "is a profile of version 2": b'{"version": 2, "rows": []}',
    "rows[0] (cheap, chat): passed 5 of 3": encode([row(passed=5, n=3)]),
    "rows[0] (, chat): needs a tier and a task_class": encode([row(tier="")]),
    "rows[1] (cheap, chat): appears twice": encode([row(), row()]),
    "Invalid enum value": encode([row()]).replace(b'"allow"', b'"perhaps"'),
    "'utf-8' codec": b'{"version": 1, "rows": [{"tier": "\xff"}]}',
}


@pytest.mark.parametrize("command", ["show", "import"])
@pytest.mark.parametrize("told", WRONG)
def test_a_file_that_is_no_profile_is_named_with_what_is_wrong_and_changes_nothing(
    profile: Path, capsys: pytest.CaptureFixture[str], told: str, command: str
) -> None:
    file = profile if command == "show" else Path("other.json")
    file.write_bytes(WRONG[told])
    assert run(["profile", command, *(["other.json"] if command == "import" else [])]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(file) in captured.err
    assert told.split("'utf-8'")[0] in captured.err
    assert command == "show" or not profile.exists()


def test_rows_of_tiers_and_classes_that_are_not_configured_are_shown_and_kept(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(profile, row(tier="gone"), row("juggling"))
    assert run(["profile", "show"]) == 0
    shown = capsys.readouterr().out
    assert "gone" in shown
    assert "juggling" in shown
    assert run(["profile", "import", str(write(Path("more.json"), row()))]) == 0
    kept = {(one["tier"], one["task_class"]) for one in json.loads(profile.read_bytes())["rows"]}
    assert kept == {("gone", "chat"), ("cheap", "juggling"), ("cheap", "chat")}


def test_config_check_reads_the_profile_that_up_would_read(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(profile, row(), row(tier="gone"))
    assert run(["config", "check"]) == 0
    assert "warning: the profile has a row of tier 'gone'" in capsys.readouterr().err
    profile.write_text("{")
    assert run(["config", "check", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], "is not a quality profile" in found["problems"][0]) == (False, True)
    config = profile.parent.parent / "stoker.toml"
    config.write_text(config.read_text() + '[router]\nprofile_path = "nowhere.json"\n')
    assert run(["config", "check"]) == 2
    assert "nowhere.json: No such file" in capsys.readouterr().err


# -- diff -----------------------------------------------------------------------------------------------------------


def test_what_changed_since_the_last_write_is_told_and_exits_with_1(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(profile, row(), row("planning"))
    changed = write(Path("new.json"), row(passed=0, n=3, verdict=Verdict.DENY), row("review"))
    assert run(["profile", "import", str(changed), "--replace"]) == 0
    capsys.readouterr()
    assert run(["profile", "diff"]) == 1
    assert [line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()[1:]] == [
        "deny, 0 of 3", "not measured", "allow, 27 of 27",
    ]  # fmt: skip
    assert run(["profile", "diff", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0] == {
        "tier": "cheap", "class": "chat", "before": "allow, 27 of 27", "now": "deny, 0 of 3",
    }  # fmt: skip


def test_a_profile_that_is_the_same_exits_with_0(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(profile, row())
    assert run(["profile", "diff", str(write(Path("same.json"), row()))]) == 0
    assert capsys.readouterr().out == "nothing changed\n"


def test_without_history_a_file_is_asked_for(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(profile, row())
    assert run(["profile", "diff"]) == 2
    assert "stoker profile diff FILE" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("diff", "import"):
        assert run(["profile", command, "nowhere.json"]) == 2
        told = capsys.readouterr().err
        assert "nowhere.json: No such file" in told
        assert "stoker profile export" in told


# -- export and import ------------------------------------------------------------------------------------------------


def test_what_is_exported_can_be_imported_elsewhere(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(profile, row(), row("planning"))
    before = profile.read_bytes()
    assert run(["profile", "export", "out.json"]) == 0
    assert run(["profile", "export"]) == 0
    assert capsys.readouterr().out.encode() == before
    profile.unlink()
    assert run(["profile", "import", "out.json"]) == 0
    assert profile.read_bytes() == before
    captured = capsys.readouterr()
    assert captured.out.startswith("2 rows imported into ")
    assert "stoker reload" in captured.err


def test_an_import_puts_each_row_in_its_place_and_keeps_the_others(profile: Path) -> None:
    write(profile, row(), row("planning"))
    file = write(Path("new.json"), row(passed=20, n=27))
    assert run(["profile", "import", str(file)]) == 0
    found = {one["task_class"]: one["passed"] for one in json.loads(profile.read_bytes())["rows"]}
    assert found == {"chat": 20, "planning": 27}
    assert run(["profile", "import", str(file), "--replace"]) == 0
    assert [one["task_class"] for one in json.loads(profile.read_bytes())["rows"]] == ["chat"]


def test_where_nothing_can_be_written_it_is_said(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(profile, row())
    assert run(["profile", "export", "no/such/place.json"]) == 2
    assert "no/such/place.json cannot be written: No such file" in capsys.readouterr().err
    file = write(Path("new.json"), row("review"))
    Path("state/profile.json.d").write_text("in the way of the history")
    assert run(["profile", "import", str(file)]) == 2
    assert "profile.json cannot be written" in capsys.readouterr().err
    assert [one["task_class"] for one in json.loads(profile.read_bytes())["rows"]] == ["chat"], "the old one stays"


def test_a_configured_path_is_the_one_that_is_read_and_has_to_be_there(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text() + '[router]\nprofile_path = "mine.json"\n' + TIERS)
    assert run(["profile", "import", str(write(Path("new.json"), row()))]) == 0
    assert Path("mine.json").exists()
    assert str(Path("mine.json").absolute()) in capsys.readouterr().out


def test_a_demotion_stands_below_the_rows_until_a_later_measurement(
    profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Demotions(path_of(profile.parent)).write([Demotion("cheap", "chat", "i", "e", 1.0, ("stop", "eos"), 2.0)])
    write(profile, row(at=1.0), row("planning", at=1.0))
    assert run(["profile", "show"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "cheap at chat: demoted: its answers became worse, and the preflight failed at stop, eos"
    assert run(["profile", "show", "--json"]) == 0
    assert [one.get("demoted") for one in json.loads(capsys.readouterr().out)] == [["stop", "eos"], None]
    write(profile, row(at=3.0))
    assert run(["profile", "show"]) == 0
    assert "demoted" not in capsys.readouterr().out
