"""How long a person waits: `python -m bench.startup [--times N] [--json FILE]`.

`stoker --help` from start to end, and `stoker up` from start to the first 200 of /healthz, looked at every
millisecond. One run before is not counted: it compiles the modules.
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
from bench.processes import end_on_sigterm
from bench.swap.plane import Plane
from bench.up import program

MAX_HELP = 200.0
MAX_UP = 1000.0

_NOTHING = EngineSetup("nothing", "no serve is started", engines.scripted(0, 0).serves)


def measure_help(stoker: str, times: int) -> list[float]:
    """Milliseconds. Raises CalledProcessError if it fails."""
    seen = []
    for _ in range(times + 1):
        began = time.perf_counter()
        subprocess.run((stoker, "--help"), capture_output=True, check=True, timeout=30, env=dict(os.environ))
        seen.append((time.perf_counter() - began) * 1e3)
    return seen[1:]


def measure_up(folder: Path, times: int) -> list[float]:
    """Milliseconds. Raises RuntimeError with its last words if the front door does not open."""
    seen = []
    for number in range(times + 1):
        with Plane(_NOTHING, folder / str(number), engines.HYSTERESIS_ON) as plane:
            seen.append(plane.up_after * 1e3)
    return seen[1:]


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
        seen = {"help": measure_help(stoker, found.times), "up": measure_up(Path(folder), found.times)}
    if found.json is not None:
        found.json.write_bytes(
            msgspec.json.format(msgspec.json.encode({"machine": facts, "milliseconds": seen}), indent=1)
        )
    rows = []
    for what, values, limit in (
        ("`stoker --help`", seen["help"], MAX_HELP),
        ("`stoker up` to front door ready", seen["up"], MAX_UP),
    ):
        figure = spread(values)
        word = "reached" if figure is not None and figure.median < limit else "MISSED"
        rows.append((what, f"< {limit:g} ms", show_spread(figure, 0), word))
    print(machine.headline(facts))
    print(table(("figure to reach", "bound", "measured ms", "result"), rows))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
