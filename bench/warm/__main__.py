"""`python -m bench.warm [--size 2GiB] [--runs 5] [--quick] [--folder DIR] [--json FILE]`"""

from __future__ import annotations

import argparse
import http.client
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import machine, weights
from bench.processes import end_on_sigterm
from bench.swap import calls
from bench.warm import report, rounds, speeds

QUICK = 2**28
_UNITS = {"MiB": 2**20, "GiB": 2**30}


def size_of(text: str) -> int:
    """Bytes of `256MiB` or `2GiB`. Raises ValueError."""
    found = re.fullmatch(r"(\d+)(MiB|GiB)", text)
    if found is None or (size := int(found[1]) * _UNITS[found[2]]) < 2**26:
        raise ValueError(text)
    return size


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.warm",
        description="A model's start with its weights on disk, in the page cache, and loaded.",
        epilog="Run it on an idle machine, with memory for the weights three times over. 1 if it is not reached.",
    )
    parser.add_argument("--size", type=size_of, default=2**31, help="of the weights, at least 64MiB: default 2GiB")
    parser.add_argument("--runs", type=int, default=5, help="of each: default 5")
    parser.add_argument("--quick", action="store_true", help="256 MiB, one run: a check of the bench, not figures")
    parser.add_argument("--folder", type=Path, help="where the weights are written: a directory on a disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    return parser.parse_args(argv)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(argv: Sequence[str] | None = None) -> int:
    found = _arguments(argv)
    size, runs = (QUICK, 1) if found.quick else (found.size, found.runs)
    end_on_sigterm()
    facts = machine.facts()
    if (warning := machine.warning(facts)) is not None:
        _say(warning)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-bench-", dir=found.folder) as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < 2 * size:
            _say(f"{folder} has not twice {size >> 20} MiB free: --folder names another place, --size less")
            return 1
        try:
            seen, speed, size = _measure(folder, size, runs)
        except (RuntimeError, OSError, http.client.HTTPException, ModuleNotFoundError, calls.Failed) as error:
            _say(f"failed: {type(error).__name__}: {error}")
            return 1
    result = report.verdict(seen, size, speed)
    if found.json is not None:
        raw = {"machine": facts, "quick": found.quick, "size": size, "speeds": speed, "rounds": seen}
        raw |= {"seconds": time.monotonic() - began, "verdict": result._asdict()}
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    print(machine.headline(facts))
    note = "; --quick: a check of the bench, not figures" * found.quick
    print(f"{size / 2**30:.2f} GiB of weights, {len(seen)} run(s); median (lowest to highest){note}\n")
    print(report.render(seen, size, speed))
    print(f"\n{'reached' if result.is_reached else 'MISSED'}: {result.sentence}")
    return 0 if result.is_reached or found.quick else 1


def _measure(folder: Path, size: int, runs: int) -> tuple[list[rounds.Round], speeds.Speeds, int]:
    big, small = folder / "big.gguf", folder / "small.gguf"
    _say(f"writing {size >> 20} MiB of random weights")
    weights.write_large(big, size)
    weights.write_random(small, 0)
    seen = rounds.measure(big, small, folder / "plane", runs, _say)
    return seen, speeds.measure(big), big.stat().st_size


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
