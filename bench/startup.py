"""How long a person waits, and what stays in memory: `python -m bench.startup [--times N] [--models N]`.

`stoker --help` from start to end, and `stoker up` from start to the first 200 of /healthz, looked at every
millisecond; half a second later, the resident memory of all its processes. One run before is not counted: it compiles
the modules.

`--models N` measures a file with N models instead: `stoker config check`, `up` and `reload`, beside a file with one.
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
from bench.processes import end_on_sigterm, free_port, resident_bytes, tree
from bench.swap.plane import Plane
from bench.up import Up, program

MAX_HELP = 80.0
MAX_UP = 250.0
MAX_RESIDENT = 45.0
"""MB of 1e6 bytes."""
MAX_MANY = 1.5
"""Seconds for each command on a file of 500 models."""
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


def many_models(count: int, folder: Path, port: int) -> str:
    """A configuration of `count` local models that share a slot, each with a few keys."""
    weights = folder / "model.gguf"
    rows = [
        f'[[serve]]\nname = "model-{number}"\nmodel = "{weights}"\nslot = "gpu"\nmemory = "1GiB"\ncontext = 8192\n'
        f'aliases = ["alias-{number}"]\nfallback = "model-{max(number - 1, 0)}"\n'
        for number in range(count)
    ]
    rows[0] = rows[0].replace('fallback = "model-0"\n', "")
    return f'[front_door]\nport = {port}\n[paths]\nstate = "{folder}/state"\n[slots.gpu]\n{"".join(rows)}'


def measure_models(stoker: str, folder: Path, count: int, times: int) -> dict[str, list[float]]:
    """Seconds by what is done. Raises CalledProcessError and RuntimeError."""
    seen: dict[str, list[float]] = {"config check": [], "up": [], "reload": []}
    for number in range(times + 1):
        place, port = folder / f"{count}-{number}", free_port()
        place.mkdir()
        with Up(place, many_models(count, place, port), port, {}) as up:
            seen["up"].append(up.up_after)
            for words in (("config", "check"), ("reload",)):
                began = time.perf_counter()
                command = (stoker, *words, "--config", str(up.config))
                subprocess.run(command, capture_output=True, check=True, timeout=60)
                seen[" ".join(words)].append(time.perf_counter() - began)
    return {what: values[1:] for what, values in seen.items()}


def report_models(stoker: str, count: int, times: int) -> str:
    """The table of `--models`."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        one, many = (measure_models(stoker, Path(folder), size, times) for size in (1, count))
    rows = []
    for what, values in many.items():
        figure = spread(values)
        word = "reached" if figure is not None and figure.median < MAX_MANY else "MISSED"
        rows.append((f"`stoker {what}`", f"{show_spread(spread(one[what]), 2)} s", f"{show_spread(figure, 2)} s", word))
    return table(("what", "1 model", f"{count} models", f"below {MAX_MANY:g} s"), rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--models", type=int, metavar="N", help="measure a file with N models instead")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    end_on_sigterm()
    stoker = program()
    if stoker is None:
        sys.stderr.write("no `stoker` command beside this Python: pip install -e . first\n")
        return 1
    facts = machine.facts()
    if found.models is not None:
        print(machine.headline(facts))
        print(report_models(stoker, found.models, found.times))
        return 0
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
