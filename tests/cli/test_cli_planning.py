"""`stoker eval planning`, where nothing runs."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest

from stoker.cli.main import run


def test_the_shipped_plans_are_graded_byte_for_byte_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["eval", "planning", "--json"]) == 0
    kept = files("stoker.measure.suites") / "data" / "planning-report.json"
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
        (["--outputs", "/nowhere"], 1, "/nowhere is no directory"),
    ],
)
def test_wrong_words_say_what_to_type(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "planning", *words]) == code
    assert says in capsys.readouterr().err
