"""The bench of preflight: it names faults, stays silent without one, and says so."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from bench.gates import __main__ as bench

ROOT = Path(__file__).resolve().parents[2]


def test_an_unknown_fault_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        bench.main(["--only", "nonsense"])
    assert left.value.code == 2
    assert "no such fault: nonsense; there are double-bos" in capsys.readouterr().err


def test_an_unknown_subject_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        bench.main(["--subject", "nobody"])
    assert left.value.code == 2
    assert "no such subject: nobody; there are engine, assistant" in capsys.readouterr().err


def test_the_assistant_shows_a_fault_and_is_clean_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--subject", "assistant", "--only", "shared-index", "--clean", "0"]) == 0
    assert "1 of 1 faults named (100%" in capsys.readouterr().out


@pytest.mark.heavy
@pytest.mark.llama
@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed")
def test_two_faults_are_named_and_a_clean_run_is_silent(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [
        sys.executable,
        "-m",
        "bench.gates",
        "--only",
        "loop,no-done",
        "--subject",
        "engine",
        "--clean",
        "1",
        "--quick",
    ]
    command += ["--json", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 faults named" in done.stdout
    found = msgspec.json.decode(out.read_bytes())
    assert (len(found["rows"]), found["alarms"]) == (2, [])
