"""The testing kit is found by its former name, `stoker.testing`, too."""

from __future__ import annotations

import subprocess
import sys


def test_modules_and_programs_are_found_by_their_former_names() -> None:
    program = "from stoker.testing.clock import FakeClock; print(FakeClock().now())"
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert float(made.stdout) >= 0
    helped = subprocess.run(
        [sys.executable, "-m", "stoker.testing.scripted", "--help"],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert "--ready-after" in helped.stdout
