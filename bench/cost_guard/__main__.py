"""`python -m bench.cost_guard [--keep] [--python-only] [--json FILE]`: does a request cost more than it did?

Counts instructions of requests, streamed events and translated events on in-memory transports, and compares them with
those kept in bench/cost_guard/kept.json. Exits 1 if one rose by more than 3 %, and names the functions that grew.
`--keep` keeps the new counts instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from bench.cost_guard import bytecode, guard, machine_code
from bench.cost_guard.guard import Counts
from bench.cost_guard.work import KINDS, Work, perform, prepared
from bench.figures import table

WARM_UP, REPEATS = 3, 20


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cost_guard", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="keep the new counts")
    parser.add_argument("--python-only", action="store_true", help="count without valgrind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every count")
    found = parser.parse_args(argv)
    now = {name: Counts(python_instructions(work)) for name, work in KINDS.items()}
    if found.python_only or not machine_code.is_available():
        print("machine instructions: not counted" + ("" if found.python_only else ", valgrind is not installed"))
    else:
        for name, total in zip(now, machine_code.count(KINDS.values()), strict=True):
            now[name].machine_code = total
    kept, me = guard.read(), guard.interpreter()
    before = kept.counts.get(me, {})
    print(_table(before, now))
    if found.json is not None:
        found.json.write_bytes(msgspec.json.encode(now))
    if found.keep:
        kept.counts[me] = now
        guard.write(kept)
        return 0
    if not before:
        print(f"nothing is kept for {me}: `python -m bench.cost_guard --keep` keeps these counts")
        return 0
    grown = guard.rises(before, now)
    for rise in grown:
        print(rise, file=sys.stderr)
    if grown:
        print("if that is meant: `python -m bench.cost_guard --keep`, and say why in the commit", file=sys.stderr)
    return 1 if grown else 0


def python_instructions(work: Work) -> dict[str, float]:
    """Per unit of `work`, by function."""
    times = REPEATS if work.units == 1 else REPEATS // 10
    with prepared(work) as (loop, protocol):
        perform(work, loop, protocol, WARM_UP)
        counted = bytecode.count(partial(perform, work, loop, protocol, times))
    return {name: round(number / times / work.units, 2) for name, number in counted.most_common()}


def _table(before: dict[str, Counts], now: dict[str, Counts]) -> str:
    rows = []
    for name, counts in now.items():
        old = before.get(name, Counts())
        rows.append(
            [
                name,
                _shown(old.python or None),
                _shown(counts.python),
                _shown(old.machine_code),
                _shown(counts.machine_code),
            ]
        )
    return table(["per", "Python, kept", "Python, now", "machine, kept", "machine, now"], rows)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
