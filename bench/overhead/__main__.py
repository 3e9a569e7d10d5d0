"""`python -m bench.overhead [--quick] [--gateways nginx,...] [--scenarios paced,...] [--rounds N] [--json FILE]`"""

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
_SCENARIOS = tuple(one.name for one in scenarios(quick=True))


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
    parser.add_argument("--scenarios", help=f"comma separated, default all: {', '.join(_SCENARIOS)}")
    parser.add_argument("--rounds", type=int, help="default 3, with --quick 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    for name, peer in GATEWAYS.items():
        what = f"its {peer.program}, where that is not beside this Python or on PATH" if peer.program else peer.source
        parser.add_argument(f"--{name}", dest=f"at_{name}", metavar="PATH", help=what)
    found = parser.parse_args(argv)
    found.names = _listed(parser, "gateway", found.gateways, _ALL)
    found.load = _listed(parser, "scenario", found.scenarios or ",".join(_SCENARIOS), _SCENARIOS)
    if "direct" not in found.names:
        found.names.insert(0, "direct")  # added times are measured against it
    found.rounds = found.rounds or (1 if found.quick else 3)
    return found


def _listed(parser: argparse.ArgumentParser, what: str, given: str, known: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    for name in names:
        if name not in known:
            parser.error(f"unknown {what} {name!r}; there are {', '.join(known)}")
    return names


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
    load = tuple(one for one in scenarios(found.quick) if one.name in found.load)
    peers = {name: path for name in GATEWAYS if (path := getattr(found, f"at_{name}")) is not None}
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
    if beside := report.render_beside(lines):
        print(beside + "\n")
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
