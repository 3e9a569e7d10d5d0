"""How long a person waits, and what stays in memory: `python -m bench.startup [--times N] [--json FILE]`.

`stoker --help` from start to end, and `stoker up` from start to the first 200 of /healthz, looked at every
millisecond; half a second later, the resident memory of all its processes. One run before is not counted: it compiles
the modules.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import engines, machine
from bench.engines import EngineSetup
from bench.figures import show_spread, spread, table
from bench.processes import end_on_sigterm, resident_bytes, tree
from bench.swap.plane import Plane
from bench.up import program

MAX_HELP = 80.0
MAX_UP = 250.0
MAX_RESIDENT = 45.0
"""MB of 1e6 bytes."""
SETTLE = 0.5
"""Seconds after which what runs once after a start has run."""

_NOTHING = EngineSetup("nothing", "no serve is started", engines.scripted(0, 0).serves)


def measure_help(stoker: str, times: int) -> list[float]:
    """Milliseconds. Raises CalledProcessError if it fails."""
    seen = []
    for _ in range(times + 1):
        began = time.perf_counter()
        subprocess.run((stoker, "--help"), capture_output=True, check=True, timeout=30, env=dict(os.environ))
        seen.append((time.perf_counter() - began) * 1e3)
    return seen[1:]


def measure_up(folder: Path, times: int) -> tuple[list[float], list[float]]:
    """Milliseconds, and MB. Raises RuntimeError with its last words if the front door does not open."""
    seen, resident = [], []
    for number in range(times + 1):
        with Plane(_NOTHING, folder / str(number), engines.HYSTERESIS_ON) as plane:
            seen.append(plane.up_after * 1e3)
            time.sleep(SETTLE)
            resident.append(resident_bytes(tree(plane.pid)) / 1e6)
    return seen[1:], resident[1:]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    end_on_sigterm()
    stoker = program()
    if stoker is None:
        sys.stderr.write("no `stoker` command beside this Python: pip install -e . first\n")
        return 1
    facts = machine.facts()
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        of_help = measure_help(stoker, found.times)
        of_up, resident = measure_up(Path(folder), found.times)
    if found.json is not None:
        seen = {"machine": facts, "milliseconds": {"help": of_help, "up": of_up}, "megabytes": resident}
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(seen), indent=1))
    rows = []
    for what, values, limit, unit in (
        ("`stoker --help`", of_help, MAX_HELP, "ms"),
        ("`stoker up` to front door ready", of_up, MAX_UP, "ms"),
        ("resident memory after `stoker up`", resident, MAX_RESIDENT, "MB"),
    ):
        figure = spread(values)
        word = "reached" if figure is not None and figure.median < limit else "MISSED"
        rows.append((what, f"< {limit:g} {unit}", f"{show_spread(figure, 0 if unit == 'ms' else 1)} {unit}", word))
    print(machine.headline(facts))
    print(table(("figure to reach", "bound", "measured", "result"), rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
