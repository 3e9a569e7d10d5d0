"""Tests in several processes: each is run once and reported, also where a process dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = {
    "test_a": "def test_right(tmp_path): print('hidden')\ndef test_wrong(): assert 1 == 2\n",
    "test_dies": "import os\ndef test_before(): pass\ndef test_dies(): os._exit(3)\ndef test_after(): pass\n",
    "test_ends": "import os\ndef test_before(): pass\ndef test_ends(): os._exit(0)\n",
    "test_killed": "import os\ndef test_killed(): os.kill(os.getpid(), 9)\n",
    "test_z": "def test_right(): pass\ndef test_too(): pass\n",
}


def run_pytest(place: Path, workers: int, *words: str) -> subprocess.CompletedProcess[str]:
    for name, text in FILES.items():
        (place / f"{name}.py").write_text(text)
    line = ("-m", "pytest", "-p", "tests.conftest", "--rootdir", str(place), "-q", "-rf", "--workers", str(workers))
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "TMPDIR": str(place)}
    return subprocess.run(
        [sys.executable, *line, *words, "."], cwd=place, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_each_test_is_reported_once_and_a_process_that_dies_is_a_failure(tmp_path: Path, workers: int) -> None:
    done = run_pytest(tmp_path, workers)
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout + done.stderr
    assert lines[-1].startswith("4 failed, 6 passed"), done.stdout
    failed = {line.split()[1] for line in lines if line.startswith("FAILED ")}
    assert failed == {
        "test_a.py::test_wrong",
        "test_dies.py::test_dies",
        "test_ends.py::test_ends",
        "test_killed.py::test_killed",
    }
    assert "the worker that was at test_dies.py::test_dies ended with exit code 3" in done.stdout
    assert "hidden" not in done.stdout


def test_the_first_failure_ends_the_run_where_that_is_asked_for(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, 1, "-x")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "ended with exit code" not in done.stdout
