"""What an orchestrator finds, what it costs, and what overlap saves: `python -m bench.orchestrating [--only PART]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import machine
from bench.orchestrating import cost, real, scripted

PARTS = ("faults", "plants", "overlap", "cost", "real")
SEED = 15


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.orchestrating", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", choices=PARTS, help="one part; default: all")
    parser.add_argument("--requests", type=int, default=50, metavar="N", help="with planted faults (default 50)")
    parser.add_argument("--pairs", type=int, default=6, metavar="N", help="of overlap and plain sequence (default 6)")
    parser.add_argument("--seconds", type=float, default=0.3, help="of one block and of one verdict (default 0.3)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of the cost (default 5)")
    parser.add_argument("--model", default="ember", help="that answers the fixtures (default ember)")
    parser.add_argument("--fixtures", type=int, default=60, metavar="N", help="default 60")
    parser.add_argument("--max-tokens", type=int, default=512, metavar="N", help="of one answer (default 512)")
    found = parser.parse_args(argv)
    seen = machine.facts()
    print(machine.headline(seen))
    if warning := machine.warning(seen):
        print(warning)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        missed = [
            text for part in PARTS if found.only in (None, part) for text in _run(part, Path(folder) / part, found)
        ]
    for text in missed:
        print(f"missed: {text}")
    return bool(missed)


def _run(part: str, folder: Path, found: argparse.Namespace) -> list[str]:
    """Run and show one part; the bounds that it missed."""
    print(f"\n## {part}\n", flush=True)
    match part:
        case "faults":
            counts = scripted.count_faults(folder, found.requests, SEED)
            print(scripted.show_faults(counts))
            return [f"a fault reached the client: {kind}" for kind, one in counts.items() if one.with_checks]
        case "plants":
            plants = scripted.count_plants(folder)
            print(scripted.show_plants(plants))
            return [f"a fault reached the client: {kind}" for kind, one in plants.items() if one.reached]
        case "overlap":
            return _overlap(folder, found)
        case "cost":
            loop = cost.loop_cost(folder, 20, found.rounds)
            print(cost.show_cost(loop, cost.plain_cost(folder, 300, found.rounds)))
            return [] if loop.block_by_block.median < 2 else ["a block costs 2 ms or more"]
        case _:
            runs = real.run_real(folder, found.model, found.fixtures, found.max_tokens)
            print(real.show_real(runs, SEED))
            return []


def _overlap(folder: Path, found: argparse.Namespace) -> list[str]:
    times = {
        name: scripted.time_overlap(folder / name.split()[0], found.pairs, share, found.seconds, SEED)
        for name, share in (("nothing fails", 0.0), ("fifth of the blocks fails", scripted.SHARE))
    }
    print(scripted.show_overlap(times, SEED))
    good, bad = (one.speed_up(SEED).value or 0.0 for one in times.values())
    missed = [] if good >= 1.5 else ["overlap is less than 1.5 times faster where nothing fails"]
    return missed if bad >= 1 / 1.05 else [*missed, "overlap is more than 5 % slower where a fifth fails"]


if __name__ == "__main__":
    sys.exit(main())
