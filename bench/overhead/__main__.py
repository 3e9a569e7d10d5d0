"""`python -m bench.overhead [--quick] [--gateways direct,nginx,...] [--rounds N] [--json FILE]`"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench import machine
from bench.overhead import report
from bench.overhead.gateways import BEFORE, GATEWAYS
from bench.overhead.rounds import Bench, Run
from bench.overhead.scenarios import scenarios
from bench.processes import end_on_sigterm, raise_file_limit

_ALL = ("direct", *GATEWAYS)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.overhead",
        description="What a gateway costs per request and per streamed event, side by side. Run it on an idle machine.",
        epilog="Ends with 1 if Stoker lost, doubled, reordered or refused anything; a missed cost figure is only said.",
    )
    parser.add_argument("--quick", action="store_true", help="one short round, under a minute: noisy figures")
    parser.add_argument(
        "--gateways",
        default=",".join(name for name in _ALL if name != BEFORE),
        help="comma separated, default %(default)s",
    )
    parser.add_argument("--rounds", type=int, help="default 3, with --quick 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    for name in GATEWAYS:
        what = "its Python" if name == "sglang" else "its program"
        parser.add_argument(f"--{name}", metavar="PATH", help=f"{what}, where it is not beside this Python or on PATH")
    found = parser.parse_args(argv)
    found.names = list(dict.fromkeys(name.strip() for name in found.gateways.split(",") if name.strip()))
    for name in found.names:
        if name not in _ALL:
            parser.error(f"unknown gateway {name!r}; there are {', '.join(_ALL)}")
    if "direct" not in found.names:
        found.names.insert(0, "direct")  # added times are measured against it
    found.rounds = found.rounds or (1 if found.quick else 3)
    return found


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main(argv: Sequence[str] | None = None) -> int:
    found = _arguments(argv)
    end_on_sigterm()
    raise_file_limit()
    facts = machine.facts()
    if (warning := machine.warning(facts)) is not None:
        _say(warning)
    load = scenarios(found.quick)
    peers = {name: path for name in GATEWAYS if (path := getattr(found, name)) is not None}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder, Bench(Path(folder), peers, _say) as one:
        run = one.run(found.names, load, found.rounds)
    seconds = time.monotonic() - began
    lines = report.lines(run, load)
    verdicts = report.verdicts(lines) if "stoker" in found.names else []
    if found.json is not None:
        raw = {
            "machine": facts,
            "quick": found.quick,
            "seconds": seconds,
            "summary": lines,
            "verdicts": verdicts,
            "run": run,
        }
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    _print(facts, found.rounds, seconds, run, report.render(lines, load), lines, report.render_verdicts(verdicts))
    ours = any(line.failures for line in lines if line.gateway in ("direct", "stoker"))
    missed = any(not one.cost and not one.is_reached for one in verdicts)
    return 1 if ours or missed else 0


def _print(
    facts: dict[str, object],
    rounds: int,
    seconds: float,
    run: Run,
    tables: str,
    lines: Sequence[report.Line],
    verdicts: str,
) -> None:
    pinned = "gateway on one CPU, load and upstream on the other" if run.pinned else "not pinned: only one CPU"
    print(machine.headline(facts))
    print(f"{rounds} round(s) in {seconds:.0f} s; {pinned}; median (lowest to highest)\n")
    print(tables + "\n")
    if run.memory:
        print(report.idle_line(run))
    for name, reason in run.missing.items():
        print(f"{report.NAMES[name]}: not measured: {reason}")
    for line in lines:
        for reason, times in line.failures.items():
            print(f"FAILED {report.NAMES[line.gateway]}, {line.scenario}: {times} x {reason}")
    if verdicts:
        print("\n" + verdicts)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
