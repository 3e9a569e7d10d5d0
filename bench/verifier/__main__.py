"""`python -m bench.verifier [--n 10000] [--each 300] [--seed 1] [--json] [--missed]`.

Fails if more than 0.5 % of the clean answers are rejected, or fewer than 99 % of the faults caught.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from bench.verifier.report import measure, shown

MAX_REJECTED = 0.005
MIN_CAUGHT = 0.99


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.verifier", description="What verification rejects and catches."
    )
    parser.add_argument("--n", type=int, default=10_000, help="clean answers")
    parser.add_argument("--each", type=int, default=300, help="answers with each fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--missed", action="store_true", help="show the first missed answer of each fault")
    given = parser.parse_args(argv)
    report = measure(given.seed, given.n, given.each)
    text = msgspec.json.encode(report).decode() if given.json else shown(report, given.missed)
    sys.stdout.write(text + "\n")
    (bad, clean), (found, faults) = report.rejected, report.caught
    return 0 if bad <= MAX_REJECTED * clean and found >= MIN_CAUGHT * faults else 1


if __name__ == "__main__":
    raise SystemExit(main())
