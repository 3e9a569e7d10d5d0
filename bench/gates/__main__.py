"""`python -m bench.gates [--clean N] [--only FAULT,...] [--json FILE]`"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

import stoker
from bench import machine
from bench.processes import Child, end_on_sigterm, free_port
from stoker.domain.lease import Target
from stoker.domain.run import Outcome, Run, Subject
from stoker.measure.faults.grafts import GRAFTS
from stoker.measure.faults.proxy import Proxy
from stoker.measure.faults.table import FAULTS, NONE
from stoker.measure.gates.look import Look
from stoker.measure.preflight import Options, preflight

GOAL = 0.95
"""Of the faults, how many must be named."""
_START = 30.0


class Row(NamedTuple):
    """One fault, and which gates failed."""

    fault: str
    named: bool
    failed: list[str]
    seconds: float
    seen: str


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gates", description=__doc__)
    parser.add_argument("--clean", type=int, default=50, metavar="N", help="runs without a fault: default 50")
    parser.add_argument("--only", default="", metavar="FAULT,...", help="these faults only")
    parser.add_argument("--model", default="ember", choices=("ember", "spark"), help="default ember")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    end_on_sigterm()
    names = [name for name in found.only.split(",") if name] or list(FAULTS)
    if unknown := [name for name in names if name not in FAULTS]:
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        port = free_port()
        engine = Child.start("engine", command(found.model, port), Path(folder) / "log")
        try:
            rows, alarms = asyncio.run(measure(found.model, port, names, found.clean))
        finally:
            engine.end()
    facts = machine.facts()
    named = sum(row.named for row in rows)
    print(machine.headline(facts))
    print(f"{named} of {len(rows)} faults named ({named / len(rows):.0%}, goal {GOAL:.0%}); "
          f"{len(alarms)} of {found.clean} clean runs with a false alarm (goal 0)")  # fmt: skip
    for alarm in alarms:
        print(f"false alarm: {alarm}")
    if found.json is not None:
        raw = {"machine": facts, "rows": [row._asdict() for row in rows], "alarms": alarms, "clean": found.clean}
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    return 0 if named >= GOAL * len(rows) and not alarms else 1


def command(model: str, port: int) -> list[str]:
    weights = Path(stoker.__file__).parent / "models" / f"{model}.gguf"
    engine = [sys.executable, "-m", "stoker.fleet.engines.embedded", "-m", str(weights), "--alias", model]
    shape = ["-np", "4", "-c", "8192", "-t", "1", "--temp", "0", "--cache-ram", "0"]
    return [*engine, "--port", str(port), *shape, "--metrics", "--slots"]


async def measure(model: str, port: int, names: Sequence[str], clean: int) -> tuple[list[Row], list[str]]:
    """Rows of the faults, printed as they come, and the false alarms of clean runs."""
    target = Target("127.0.0.1", port, "", model)
    await _ready(target)
    rows = []
    for name in names:
        row = await under(target, name)
        rows.append(row)
        print(f"{'named ' if row.named else 'MISSED'} {name:24} {row.seconds:5.1f} s  {', '.join(row.failed) or '-'}",
              flush=True)  # fmt: skip
        if row.seen:
            print(f"{'':39}{row.seen[:150]}", flush=True)
    alarms = []
    for turn in range(clean):
        # Other words each time; every third time through the proxy, with everything grafted on.
        run = await (clean_run(target, turn + 1) if turn % 3 else behind(target, turn + 1))
        for finding in run.findings:
            if finding.outcome is not Outcome.PASSED and finding.outcome is not Outcome.NOT_APPLICABLE:
                alarms.append(f"run {turn + 1}: {finding.name}: {finding.seen}")
        if turn % 10 == 9:
            print(f"{turn + 1} clean runs, {len(alarms)} false alarms", flush=True)
    return rows, alarms


async def under(target: Target, name: str) -> Row:
    """Preflight of the serve behind this fault."""
    fault = FAULTS[name]
    async with Proxy(target, fault, [GRAFTS[graft] for graft in fault.needs]) as proxy:
        run = await _preflight(target, proxy.port, Options(without_lacks="parallel" in fault.needs))
    failed = [finding for finding in run.findings if finding.outcome is Outcome.FAILED]
    failed = [one for one in failed if "parallel" not in fault.needs or one.name != "tool-none"]
    naming = [finding for finding in failed if finding.name in fault.gates]
    return Row(name, bool(naming), [one.name for one in failed], run.seconds, naming[0].seen if naming else "")


async def clean_run(target: Target, seed: int) -> Run:
    return await _preflight(target, target.port, Options(seed=seed))


async def behind(target: Target, seed: int) -> Run:
    async with Proxy(target, NONE, [GRAFTS["vision"], GRAFTS["thinking"]]) as proxy:
        return await _preflight(target, proxy.port, Options(seed=seed))


async def _preflight(target: Target, port: int, options: Options) -> Run:
    own = Target(target.host, port, "", target.served_name)
    subject = Subject(target.served_name, target.served_name, f"http://{target.host}:{port}/v1", route="direct")
    return await preflight(subject, own, options)


async def _ready(target: Target) -> None:
    look, until = Look(target), time.monotonic() + _START
    try:
        while (await look.get("/health")).status != 200:
            if time.monotonic() > until:
                raise SystemExit("the engine did not come up")
            await asyncio.sleep(0.05)
    finally:
        look.close()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
