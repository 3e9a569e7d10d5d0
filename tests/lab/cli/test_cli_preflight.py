"""`stoker eval preflight`: what it prints, what it keeps, how it exits."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.fake_stoker import FakeStoker, serve_status

from stoker.cli.main import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def scripted() -> Iterator[str]:
    """The base URL of a scripted model, in a process of its own: the command has its own loop."""
    command = [sys.executable, "-m", "stoker_lab.testing.scripted", "--port", "0", "--id", "some"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        yield next(word for word in line.split() if word.startswith("http")) + "/v1"
    finally:
        process.terminate()
        process.communicate(timeout=10)


def results(home: Path) -> list[Path]:
    return list((home / ".local" / "state" / "stoker" / "results").glob("*.json"))


def test_the_list_says_what_each_gate_proves(capsys: Captured) -> None:
    assert run(["eval", "preflight", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CHECK", "PROVES", "CANNOT", "SEE"]
    assert any(line.startswith("needle ") for line in lines)
    assert run(["eval", "preflight", "--list", "--json"]) == 0
    [eos] = [one for one in json.loads(capsys.readouterr().out) if one["gate"] == "eos"]
    assert eos["proves"] == "twenty short answers end by themselves"
    assert eos["cannot_see"]


def test_a_pass_is_0_and_is_kept_for_its_owner_only(scripted: str, home: Path, capsys: Captured) -> None:
    assert run(["eval", "preflight", "--base-url", scripted, "--only", "model,usage,frames"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].split() == ["CHECK", "OUTCOME", "TOOK", "SEEN"]
    assert [line.split()[:2] for line in lines[1:4]] == [[n, "passed"] for n in ("model", "usage", "frames")]
    assert lines[-1].startswith("some: passed, 3 of 3 checks")
    [path] = results(home)
    assert f"saved: {path}" in captured.err
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    kept = json.loads(path.read_text())
    assert (kept["kind"], kept["outcome"], kept["subject"]["model"]) == ("preflight", "passed", "some")
    assert kept["machine"]["cores"]


def test_a_failure_is_1_with_cause_and_fix(scripted: str, capsys: Captured) -> None:
    assert run(["eval", "preflight", "--base-url", scripted, "--model", "some", "--only", "json-schema,model"]) == 1
    out = capsys.readouterr().out
    assert "\njson-schema: flat: not JSON, but 'tok0 tok1" in out
    assert "\n  likely cause: the grammar backend is off" in out
    assert "\n  fix: " in out


def test_json_is_the_whole_run(scripted: str, capsys: Captured) -> None:
    assert run(["eval", "preflight", "--base-url", scripted, "--only", "usage", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["findings"]] == ["usage"]


def test_an_earlier_result_is_a_baseline(scripted: str, home: Path, capsys: Captured) -> None:
    given = ["eval", "preflight", "--base-url", scripted, "--only", "prompt-tokens"]
    run(given)
    [path] = results(home)
    run([*given, "--baseline", path.stem])
    assert "prompt-tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--only", "nonsense"], "there is no check 'nonsense'; known: model, prompt-tokens"),
        (["--wording", "nonsense"], "there is no wording 'nonsense'; known: assistant, ember, spark"),
        (["--model", "other"], "has no model 'other'"),
    ],
)
def test_what_there_is_not_is_2(given: list[str], said: str, scripted: str, capsys: Captured) -> None:
    assert run(["eval", "preflight", "--base-url", scripted, *given]) == 2
    assert said in capsys.readouterr().err


def test_an_address_where_nobody_listens_is_2(capsys: Captured) -> None:
    assert run(["eval", "preflight", "--base-url", "http://127.0.0.1:1/v1", "--model", "x"]) == 2
    assert "cannot be reached" in capsys.readouterr().err


def test_a_serve_that_is_down_is_2_with_the_command_that_starts_it(stoker: FakeStoker, capsys: Captured) -> None:
    stoker.status(serve_status("fast", "stopped"))
    assert run(["eval", "preflight", "fast"]) == 2
    assert "start it: stoker serves up fast" in capsys.readouterr().err


def test_no_stoker_is_2_with_the_command_that_starts_it(home: Path, capsys: Captured) -> None:
    Path("stoker.toml").write_text('[[serve]]\nname = "fast"\nmodel = "fast.gguf"\n')
    assert run(["eval", "preflight", "fast"]) == 2
    assert "stoker up --config" in capsys.readouterr().err
