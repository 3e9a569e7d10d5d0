"""`python -m bench.gates [--clean N] [--only FAULT,...] [--subject engine,assistant] [--json FILE]`"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import machine
from bench.gates import subjects
from bench.gates.subjects import RunningSubject
from bench.processes import end_on_sigterm
from stoker.domain.run import Outcome, Run
from stoker_lab.preflight.run import PreflightOptions
from stoker_lab.testing.faults.fault import ServingFault
from stoker_lab.testing.faults.table import FAULTS, NONE

GOAL = 0.97
"""Of the faults, how many must be named."""
SUBJECTS = ("engine", "assistant", "embedder")


_GAPS = {"parallel", "descriptions"}
"""Abilities that close a known gap of the demo models."""


class Row(NamedTuple):
    """One fault of one subject, and which checks failed."""

    subject: str
    fault: str
    named: bool
    failed: list[str]
    seconds: float
    seen: str


class Clean(NamedTuple):
    """A run without a fault."""

    subject: str
    seconds: float
    alarms: list[str]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gates", description=__doc__)
    parser.add_argument("--clean", type=int, default=100, metavar="N", help="runs without a fault: default 100")
    parser.add_argument("--only", default="", metavar="FAULT,...", help="these faults only; `none`: no fault")
    parser.add_argument(
        "--subject", default=",".join(SUBJECTS), metavar="NAME,...", help=f"default {','.join(SUBJECTS)}"
    )
    parser.add_argument("--model", default="ember", choices=("ember", "spark"), help="of the engine: default ember")
    parser.add_argument("--quick", action="store_true", help="of each fault, run only the checks that are about it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    end_on_sigterm()
    names = [name for name in found.only.split(",") if name] or list(FAULTS)
    names = [] if names == ["none"] else names
    if unknown := [name for name in names if name not in FAULTS]:
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    kinds = [name for name in found.subject.split(",") if name]
    if unknown := [name for name in kinds if name not in SUBJECTS]:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    rows, runs = asyncio.run(measure(found.model, kinds, names, found.clean, quick=found.quick))
    facts = machine.facts()
    print(machine.headline(facts))
    alarms = [alarm for run in runs for alarm in run.alarms]
    for line in summary(rows, runs):
        print(line)
    if found.json is not None:
        raw = {"machine": facts, "rows": [row._asdict() for row in rows], "runs": [run._asdict() for run in runs],
               "alarms": alarms, "clean": found.clean}  # fmt: skip
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode(raw), indent=1))
    return 0 if sum(row.named for row in rows) >= GOAL * len(rows) and not alarms else 1


def summary(rows: Sequence[Row], runs: Sequence[Clean]) -> list[str]:
    named, bad = sum(row.named for row in rows), sum(bool(run.alarms) for run in runs)
    share = f" ({named / len(rows):.0%}, goal {GOAL:.0%})" if rows else ""
    lines = [f"{named} of {len(rows)} faults named{share}; {bad} of {len(runs)} clean runs with a false alarm (goal 0)"]
    for kind in SUBJECTS:
        own = [row for row in rows if row.subject == kind]
        clean = sorted(run.seconds for run in runs if run.subject == kind)
        took = f", a clean run {clean[len(clean) // 2]:.1f} s (median), {clean[-1]:.1f} s at most" if clean else ""
        if own or clean:
            lines.append(f"  {kind}: {sum(row.named for row in own)} of {len(own)} faults{took}")
    return lines + [f"false alarm: {alarm}" for run in runs for alarm in run.alarms]


async def measure(
    model: str, kinds: Sequence[str], names: Sequence[str], clean: int, *, quick: bool = False
) -> tuple[list[Row], list[Clean]]:  # fmt: skip
    """Rows of the faults, printed as they come, and the runs without one, shared among the subjects."""
    rows: list[Row] = []
    runs: list[Clean] = []
    for kind in kinds:
        here = [name for name in names if shows(kind, FAULTS[name])]
        share = clean // len(kinds) + (clean % len(kinds) if kind == kinds[0] else 0)
        async with started(kind, model) as subject:
            for name in here:
                rows.append(await under(subject, name, quick=quick))
            for turn in range(share):
                runs.append(await clean_run(subject, turn))
                if turn % 10 == 9:
                    alarms = [alarm for run in runs for alarm in run.alarms]
                    print(f"{kind}: {turn + 1} clean runs, {len(alarms)} false alarms so far", flush=True)
    return rows, runs


def shows(kind: str, fault: ServingFault) -> bool:
    """Whether the fault can be seen at this kind of subject. The embedder shows only what embeddings show."""
    if kind == "embedder":
        return fault.needs_embeddings
    return not fault.needs_embeddings if kind == "engine" else not fault.needs_real_engine


def started(kind: str, model: str) -> AbstractAsyncContextManager[RunningSubject]:
    if kind == "assistant":
        return subjects.assistant()
    return subjects.engine(model, embeds=kind == "embedder")


async def under(subject: RunningSubject, name: str, *, quick: bool = False) -> Row:
    """Preflight of a subject behind this fault."""
    fault = FAULTS[name]
    plays_gap = bool(_GAPS & set(fault.needed_abilities))
    run = await subjects.behind(
        subject, fault, PreflightOptions(sorted(fault.checks) if quick else (), ignore_known_gaps=plays_gap)
    )
    failed = [finding for finding in run.findings if finding.outcome is Outcome.FAILED]
    failed = [one for one in failed if not plays_gap or one.name != "tool-none"]
    naming = [finding for finding in failed if finding.name in fault.checks]
    row = Row(
        subject.name,
        name,
        bool(naming),
        [one.name for one in failed],
        run.seconds,
        naming[0].observed if naming else "",
    )
    word = "named " if row.named else "MISSED"
    print(f"{word} {subject.name:9} {name:24} {row.seconds:5.1f} s  {', '.join(row.failed) or '-'}", flush=True)
    if row.seen:
        print(f"{'':49}{row.seen[:150]}", flush=True)
    return row


async def clean_run(subject: RunningSubject, turn: int) -> Clean:
    """Other words each time; the engine every third time behind a proxy that plays pictures; the assistant each time
    in another legal variation."""
    options = PreflightOptions(seed=turn + 1)
    if subject.name == "engine" and turn % 3 == 0:
        run = await subjects.behind(subject, NONE, options, ["vision"])
    elif subject.name != "assistant":
        run = await subjects.asked(subject.target, subject.target.port, options)
    else:
        async with subjects.assistant(subjects.variation(turn)) as other:
            run = await subjects.asked(other.target, other.target.port, options)
    return Clean(subject.name, run.seconds, _alarms(f"{subject.name} {turn + 1}", run))


def _alarms(what: str, run: Run) -> list[str]:
    fine = (Outcome.PASSED, Outcome.NOT_APPLICABLE)
    return [f"{what}: {one.name}: {one.observed}" for one in run.findings if one.outcome not in fine]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
