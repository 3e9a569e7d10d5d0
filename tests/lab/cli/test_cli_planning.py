"""`stoker eval planning`, where nothing runs."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from stoker.cli.main import run


def test_the_shipped_plans_are_graded_byte_for_byte_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "planning", "--json"]) == 0
    kept = files("stoker_lab.planning") / "shipped-report.json"
    assert capsys.readouterr().out.encode() == kept.read_bytes()


def test_the_table_has_a_line_for_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "planning"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["MODEL", "PASSED", "RATE", "SCORE"]
    assert {line.split()[0] for line in told[1:]} == {"ember", "spark", "hand-good", "hand-bad"}


def test_plans_of_ones_own_are_read_from_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"fixture": "tiny-planning-001", "model": "mine", "text": "no plan"}
    (tmp_path / "mine.jsonl").write_text(json.dumps(line) + "\n")
    assert run(["eval", "planning", "--outputs", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["models"]["mine"]["passed"] == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["spark"], 2, "--live"),
        (["--outputs", "/nowhere"], 1, "/nowhere does not exist"),
    ],
)
def test_wrong_words_say_what_to_type(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "planning", *words]) == code
    assert says in capsys.readouterr().err


def test_judges_and_a_baseline_stand_beside_the_structural_grade(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "judges.csv").write_text(
        "fixture,model,judge,score,note\nplanning-004,hand-good,ann,0.9,\nplanning-004,hand-bad,ann,fail,no steps\n"
        "planning-004,frontier,bob,1,\n"
    )
    line = {"fixture": "planning-004", "model": "frontier", "text": "no plan"}
    (tmp_path / "frontier.jsonl").write_text(json.dumps(line) + "\n")
    words = ["eval", "planning", "--judged", str(tmp_path / "judges.csv")]
    words += ["--baseline", str(tmp_path / "frontier.jsonl")]
    assert run(words) == 0
    told = capsys.readouterr().out
    assert "frontier (baseline)" in told
    assert ["structure", "and", "ann", "2", "1.00", "0.34", "to", "1.00", "1.00"] in [
        one.split() for one in told.splitlines()
    ]
    assert run([*words, "--json"]) == 0
    first = capsys.readouterr().out
    assert run([*words, "--json"]) == 0
    assert capsys.readouterr().out == first
    assert str(tmp_path) not in first
    assert json.loads(first)["judged"]["outputs"][1]["notes"] == {"ann": "no steps"}


def test_one_file_of_plans_is_graded_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = {"fixture": "tiny-planning-001", "model": "mine", "text": "no plan"}
    (tmp_path / "mine.jsonl").write_text(json.dumps(line) + "\n")
    assert run(["eval", "planning", "--outputs", str(tmp_path / "mine.jsonl"), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["models"]) == ["mine"]


def test_a_judgement_that_is_wrong_shows_nothing_and_names_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "judges.csv"
    path.write_text("fixture,model,judge,score\nplanning-004,hand-good,ann,1\nplanning-004,hand-good,bob,7\n")
    assert run(["eval", "planning", "--judged", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{path}, line 3, score: '7' is neither 0 to 1" in captured.err
