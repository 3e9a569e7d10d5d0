"""Instructions of the processor, counted by valgrind (cachegrind without its caches).

The start of the interpreter is taken out by counting the same work twice, with different repetitions. Hashes are not
salted, and addresses not random, so that two counts agree to a thousandth.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.cost_guard.work import KINDS, Work, perform, prepared

REPEATS = (20, 220)
"""Requests of the two counts; for streams a tenth of it."""
_TOTAL = re.compile(r"^summary: (\d+)", re.MULTILINE)


def is_available() -> bool:
    return shutil.which("valgrind") is not None and shutil.which("setarch") is not None


def count(work: Work, seconds: float = 1800.0) -> float:
    """Instructions per unit of `work`. Raises RuntimeError if valgrind fails, subprocess.TimeoutExpired."""
    low, high = (times if work.units == 1 else times // 10 for times in REPEATS)
    return (_run(work, high, seconds) - _run(work, low, seconds)) / (high - low) / work.units


def _run(work: Work, times: int, seconds: float) -> int:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counts"
        command = [
            "setarch", "-R", "valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={out}",
            sys.executable, "-m", "bench.cost_guard.machine_code", work.name, str(times),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": "pymalloc"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment, check=False)
        found = _TOTAL.search(out.read_text()) if out.exists() else None
        if done.returncode != 0 or found is None:
            raise RuntimeError(f"valgrind failed on '{work.name}': {done.stderr[-500:]}")
        return int(found[1])


def main() -> None:
    work, times = KINDS[sys.argv[1]], int(sys.argv[2])
    with prepared(work) as (loop, protocol):
        perform(work, loop, protocol, times)


if __name__ == "__main__":
    main()
