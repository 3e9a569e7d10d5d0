"""Tests in several processes: each is run once and reported, also where a process dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = {
    "test_a": "def test_right(tmp_path): print('hidden')\ndef test_wrong(): assert 1 == 2\n",
    "test_dies": "import os\ndef test_before(): pass\ndef test_dies(): os._exit(3)\ndef test_after(): pass\n",
    "test_z": "def test_right(): pass\ndef test_too(): pass\n",
}


def test_each_test_is_reported_once_and_a_process_that_dies_is_a_failure(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    words = ("-m", "pytest", "-p", "tests.conftest", "--rootdir", str(tmp_path), "-q", "-rf", "--workers", "2", ".")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout + done.stderr
    assert lines[-1].startswith("2 failed, 4 passed"), done.stdout
    assert any(line.startswith("FAILED test_a.py::test_wrong") for line in lines)
    assert any(line.startswith("FAILED test_dies.py::test_dies") for line in lines)
    assert "the worker that ran test_dies.py ended with exit code 3" in done.stdout
    assert "hidden" not in done.stdout
