"""`python -m bench.schedule [--quick]`: the scheduler on a virtual clock, beside other policies and an optimum."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.schedule import report, synthetic
from bench.schedule.picture import ratio_picture
from bench.schedule.sessions import agentx_markdown, run_sessions, session_table
from bench.schedule.traces import Trace, TraceRequest, from_decisions, from_mooncake
from stoker.domain.decision import Decision

SWAP_TIME = 20.0
"""Seconds, of every serve of a trace that was read from a file."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.schedule", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter, in a few seconds")
    parser.add_argument("--instances", type=int, help="how many small instances (200)")
    parser.add_argument(
        "--trace", help="instead: `agentx` (sessions of agents with published statistics), or a FILE as for --decisions"
    )
    parser.add_argument("--mooncake", type=Path, help="a trace of Mooncake, JSON lines")
    parser.add_argument("--decisions", type=Path, help="JSON lines of `stoker decisions --follow --json`")
    parser.add_argument("--slots", type=int, default=1, help="of a trace from a file (1)")
    parser.add_argument("--models", type=int, default=2, help="over how many models Mooncake's requests are spread (2)")
    parser.add_argument("--first", type=int, default=2000, help="how many requests of a file are replayed (2000)")
    parser.add_argument("--out", type=Path, help="write the tables there instead")
    parser.add_argument("--svg", type=Path, help="write the plot there")
    chosen = parser.parse_args(arguments)
    if chosen.trace and chosen.trace != "agentx":
        recorded = _recorded(Path(chosen.trace), chosen)
        return _print(f"{recorded.description}\n\n{session_table(run_sessions([recorded]))}\n", chosen.out)
    if chosen.trace:
        return _print(agentx_markdown(chosen.quick, chosen.instances or (5 if chosen.quick else 100)), chosen.out)
    seeds, limit = range(chosen.instances or (20 if chosen.quick else 200)), 5_000 if chosen.quick else 50_000
    instances = [report.run_instance(seed, limit) for seed in seeds]
    traces = [*synthetic.all_traces(chosen.quick), *_read(chosen)]
    reports = [report.run_trace(trace, with_bound=not chosen.quick) for trace in traces]
    text = report.markdown(instances, reports)
    _print(text, chosen.out)
    if chosen.svg:
        chosen.svg.write_text(ratio_picture(instances), encoding="utf-8")
    return 0


def _print(text: str, out: Path | None) -> int:
    if out:
        out.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def _read(chosen: argparse.Namespace) -> list[Trace]:
    traces = []
    if chosen.mooncake:
        models = [f"model{n}" for n in range(chosen.models)]
        traces.append(_trace(chosen.mooncake, from_mooncake(chosen.mooncake.read_bytes().splitlines(), models), chosen))
    if chosen.decisions:
        traces.append(_recorded(chosen.decisions, chosen))
    return traces


def _recorded(path: Path, chosen: argparse.Namespace) -> Trace:
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    decisions = [msgspec.json.decode(line, type=Decision) for line in lines]
    return _trace(path, from_decisions(decisions), chosen)


def _trace(path: Path, requests: list[TraceRequest], chosen: argparse.Namespace) -> Trace:
    requests = requests[: chosen.first]
    swap_times = dict.fromkeys(sorted({request.serve for request in requests}), SWAP_TIME)
    text = f"{chosen.slots} slots, {len(swap_times)} models"
    return Trace(path.name, chosen.slots, swap_times, requests, 8, description=text)


if __name__ == "__main__":
    sys.exit(main())
