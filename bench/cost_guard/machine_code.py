"""Instructions of the processor, counted by valgrind (cachegrind without its caches).

The start of the interpreter is taken out by counting the same work twice, with different repetitions. Every count is
made in a fork of one process that has imported what is needed: imports are the dearest part under valgrind. Hashes are
not salted, and addresses not random, so that two counts agree to a thousandth.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path

from bench.cost_guard.work import KINDS, Work, perform, prepared

REPEATS = (20, 220)
"""Requests of the two counts; for streams a tenth of it."""
_TOTAL = re.compile(r"^summary: (\d+)", re.MULTILINE)


def is_available() -> bool:
    return shutil.which("valgrind") is not None and shutil.which("setarch") is not None


def count(works: Iterable[Work], seconds: float = 1800.0) -> list[float]:
    """Instructions per unit of each work. Raises RuntimeError if valgrind fails, subprocess.TimeoutExpired."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "setarch", "-R", "valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={folder}/%p",
            sys.executable, "-m", "bench.cost_guard.machine_code", *(work.name for work in works),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONMALLOC": "pymalloc"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"valgrind failed: {done.stderr[-500:]}")
        return [_per_unit(KINDS[name], int(low), int(high), Path(folder)) for name, low, high in _lines(done.stdout)]


def _lines(printed: str) -> Iterable[list[str]]:
    return (line.split("\t") for line in printed.splitlines())


def _per_unit(work: Work, low: int, high: int, folder: Path) -> float:
    """`low`, `high`: the processes that counted."""
    few, many = _repeats(work)
    return (_total(folder / str(high)) - _total(folder / str(low))) / (many - few) / work.units


def _total(counted: Path) -> int:
    found = _TOTAL.search(counted.read_text()) if counted.exists() else None
    if found is None:
        raise RuntimeError("valgrind wrote no counts")
    return int(found[1])


def _repeats(work: Work) -> tuple[int, int]:
    low, high = (times if work.units == 1 else times // 10 for times in REPEATS)
    return low, high


def main() -> None:
    """Count the kinds of work that are named, all at once; print each with the two processes that count it."""
    forks = {name: [_fork(KINDS[name], times) for times in _repeats(KINDS[name])] for name in sys.argv[1:]}
    for name, (low, high) in forks.items():
        if any(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (low, high)):
            sys.exit(f"'{name}' failed")
        print(name, low, high, sep="\t")


def _fork(work: Work, times: int) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        with prepared(work) as (loop, protocol):
            perform(work, loop, protocol, times)
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
