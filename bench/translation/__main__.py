"""`python -m bench.translation [--quick] [--only codec|door] [--json FILE]`"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import machine
from bench.figures import table
from bench.processes import end_on_sigterm
from bench.translation import codec, door


def main(argv: Sequence[str] | None = None) -> int:
    """Ends with 1 if an event was lost; figures are only said."""
    parser = argparse.ArgumentParser(prog="python -m bench.translation", description="What a translation costs.")
    parser.add_argument("--quick", action="store_true", help="one short round: noisy figures")
    parser.add_argument("--only", choices=("codec", "door"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    end_on_sigterm()
    facts = machine.facts()
    if (warning := machine.warning(facts)) is not None:
        print(warning, file=sys.stderr)
    print(machine.headline(facts))
    seen: dict[str, object] = {"facts": facts}
    lost = 0
    if found.only != "door":
        pairs = codec.pairs(3 if found.quick else 15)
        seen["codec"] = [pair._asdict() for pair in pairs]
        print("\nCPU of the codec alone, us\n" + _codec_table(pairs))
    if found.only != "codec":
        with tempfile.TemporaryDirectory() as folder:
            rows = door.measure(Path(folder), *((1, 200, 50) if found.quick else (5, 2000, 200)))
        seen["door"] = [row._asdict() for row in rows]
        lost = sum(row.lost for row in rows)
        print(f"\nThrough the front door, {door.STREAMS} streams; the serve speaks chat\n" + _door_table(rows))
    if found.json is not None:
        found.json.write_bytes(msgspec.json.encode(seen))
    return 1 if lost else 0


def _codec_table(pairs: list[codec.Pair]) -> str:
    rows = [
        [f"{p.client} > {p.serve}", f"{p.small:.0f}", f"{p.large:.0f}", f"{p.event:.1f}", f"{p.growth:.2f}"]
        for p in pairs
    ]
    return table(["client > serve", "request 2 KB", "200 KB", "event", "2 MB / 1 MB argument"], rows)


def _door_table(rows: list[door.Row]) -> str:
    base = rows[0]
    shown = [
        [
            row.client, f"{row.whole * 1e3:.3f}", f"{(row.whole - base.whole) * 1e3:+.3f}",
            f"{row.event * 1e6:.1f}", f"{(row.event - base.event) * 1e6:+.1f}", f"{row.lost} of {row.events}",
        ]
        for row in rows
    ]  # fmt: skip
    return table(["client", "answer p50 ms", "added ms", "CPU us / event", "added us", "events lost"], shown)


if __name__ == "__main__":
    sys.exit(main())
