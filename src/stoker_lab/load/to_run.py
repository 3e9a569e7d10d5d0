"""From a benchmark to its artifact: one Run per route. Pure but for the clock of the benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.domain.figures import counted
from stoker.domain.run import Finding, Number, Outcome, Run, RunKind, Subject
from stoker_lab.artifacts.result_file import new_id, raw, raws
from stoker_lab.load.benchmark import Benchmark, MeasuredStep
from stoker_lab.load.figures import counts, figures, summary
from stoker_lab.load.generator import is_punctual
from stoker_lab.load.ladder import has_changed, knee, rerun_change
from stoker_lab.load.prompts import PromptSharing
from stoker_lab.requests.timing import RequestTiming


class RawSample(msgspec.Struct):
    """One repeat of one step, request by request. Times are seconds from its beginning."""

    step: str
    repeat: int
    stopped: float
    requests: list[RequestTiming]
    warm_up: list[RequestTiming] = []


class RawBenchmark(msgspec.Struct):
    """What `Run.raw` of a benchmark holds."""

    samples: list[RawSample] = []
    cold: RequestTiming | None = None


def run_of_route(
    bench: Benchmark, route: str, subject: Subject, at: float, seconds: float, machine: Mapping[str, Any],
    interrupted: bool = False,
) -> Run:  # fmt: skip
    """What one route came to. Plain names in `numbers` are the first step's; every step's have its name before."""
    rows = [one for one in bench.measured if one.route == route and one.repeats]
    every = [timed for row in rows for repeat in row.repeats for timed in repeat.requests]
    findings = [_finding(bench, row, subject.serve) for row in rows]
    numbers: dict[str, Number] = dict(findings[0].numbers) if findings else {}
    for finding in findings:
        numbers |= {f"{finding.name}.{name}": value for name, value in finding.numbers.items()}
    numbers = {name: value for name, value in numbers.items() if not name.startswith("failed.")}
    numbers |= counts(every)
    cold = bench.cold.get(route)
    numbers["cold_ttft"] = None if cold is None or cold.ttft is None else round(cold.ttft * 1000, 4)
    findings += _about_ladder(bench, route, numbers) + _about_cache(bench, rows)
    has_failed = any(not one.is_ok for one in every) or any(one.outcome is Outcome.FAILED for one in findings)
    outcome = Outcome.INTERRUPTED if interrupted else Outcome.FAILED if has_failed or not every else Outcome.PASSED
    return Run(
        id=new_id(RunKind.BENCHMARK, subject.serve, at),
        kind=RunKind.BENCHMARK,
        at=at,
        seconds=round(seconds, 3),
        subject=subject,
        outcome=outcome,
        findings=findings,
        numbers=numbers,
        settings=raws(_settings(bench)),
        machine=raws(machine),
        raw=raw(_raw_of(rows, cold)),
    )


def _settings(bench: Benchmark) -> dict[str, Any]:
    prompt = bench.prompt
    asked: dict[str, Any] = msgspec.to_builtins(bench.options)
    return asked | {
        "seed": bench.seed,
        "prompt_tokens": bench.prompt_tokens,
        "prompt_tokens_made": prompt.tokens if prompt is not None else None,
        "prompt_tokens_counted_by": bench.counted_by,
        "output_tokens": bench.output_tokens,
        "full_length": bench.is_full_length,
        "repeats": bench.plan.repeats,
    }


def _finding(bench: Benchmark, row: MeasuredStep, serve: str) -> Finding:
    step = row.step
    found = figures(row.samples(bench.clock.now()), bench.slo, from_schedule=step.is_open)
    found = {"clients": None if step.is_open else step.clients, "rate": step.rate, "repeats": len(row.repeats), **found}
    seen = summary(found)
    outcome = Outcome.FAILED if found["requests_failed"] else Outcome.PASSED
    cause = fix = ""
    if step.rate is not None:
        late = [repeat for repeat in row.repeats if not is_punctual(repeat.requests, step.rate)]
        if late:
            outcome = Outcome.UNDECIDED if outcome is Outcome.PASSED else outcome
            cause = "this machine sent requests late, by more than 10 % of their interval: the step is invalid"
            fix = "run the benchmark from another machine, or ask for a lower --rate"
    if any(repeat.has_given_up for repeat in row.repeats):
        cause = "given up: too many requests failed in a row"
        fix = f"check whether the serve still runs: stoker serves status, or stoker serves logs {serve}"
    return Finding(step.name, outcome, seen, cause, fix, found, found.get("seconds"))


def _about_ladder(bench: Benchmark, route: str, numbers: dict[str, Number]) -> list[Finding]:
    if route != bench.servers[0].route:
        return []
    found: list[Finding] = []
    for mode, stop in bench.stops.items():
        rungs = bench.rungs(mode)
        at, best = knee(rungs), max((one.output for one in rungs), default=None)
        name = "knee" if mode.value == "warm" else f"{mode.value}.knee"
        values: dict[str, Number] = {
            f"{name}_clients": at.clients if at is not None else None,
            f"{name}_output_rate": at.rate if at is not None else None,
            f"{name.replace('knee', 'peak')}_output_rate": best,
        }
        numbers |= values
        words = f"at {counted(at.clients, 'client')}; " if at is not None else "none; "
        found.append(Finding(name, Outcome.PASSED, f"{words}the ladder ended because: {stop.value}", numbers=values))
    if (
        bench.first_rung_again is not None
        and bench.first_rung_again.repeats
        and (rungs := bench.rungs(bench.first_rung_again.step.mode))
    ):
        again = bench.rung(bench.first_rung_again)
        change = rerun_change(rungs[0], again)
        numbers["drift"] = None if change is None else round(change, 4)
        is_off = has_changed(rungs[0], again)
        seen = "nothing to compare" if change is None else f"{change:+.1%} when the first step was run again at the end"
        found.append(
            Finding(
                "drift",
                Outcome.UNDECIDED if is_off else Outcome.PASSED,
                seen,
                "the machine became slower or faster during the run: heat, or other load" if is_off else "",
                "run it again on an idle machine; do not compare the steps of this run" if is_off else "",
                {"drift": numbers["drift"]},
            )
        )
    return found


MAX_CACHED = 0.05
"""Share of prompt tokens above which prompts that share nothing were not all read anew."""


def _about_cache(bench: Benchmark, rows: list[MeasuredStep]) -> list[Finding]:
    """Steps with fresh prompts whose prompts came from a cache all the same. The chat template is the same in every
    request: its tokens may be cached."""
    prompt = bench.prompt
    template = prompt.overhead / prompt.tokens if prompt is not None and prompt.tokens else 0.0
    shares: dict[str, Number] = {}
    for row in rows:
        if row.step.mode not in (PromptSharing.WARM, PromptSharing.COLD) or row.step.trace:
            continue
        share = figures(row.samples(bench.clock.now()))["cached_share"]
        if share is not None and share > MAX_CACHED + template:
            shares[row.step.name] = share
    if not shares:
        return []
    seen = ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share is not None)
    return [
        Finding(
            "cached",
            Outcome.UNDECIDED,
            f"the prompts of this run are new, but the server reports cached tokens: {seen}",
            "something in front of the model caches answers, or its cache matches parts of different prompts",
            "ask for longer prompts with --prompt-tokens, or find the cache; the times to first token are too good",
            {f"{name}.cached_share": share for name, share in shares.items()},
        )
    ]


def _raw_of(rows: list[MeasuredStep], cold: RequestTiming | None) -> RawBenchmark:
    samples = []
    for row in rows:
        for number, repeat in enumerate(row.repeats):
            begin = repeat.begin if repeat.begin is not None else 0.0
            stopped = repeat.stopped if repeat.stopped is not None else begin
            moved = [[_since(begin, one) for one in some] for some in (repeat.requests, repeat.warm)]
            samples.append(RawSample(row.step.name, number, round(stopped - begin, 6), *moved))
    return RawBenchmark(samples, None if cold is None else _since(cold.t0, cold))


def _since(begin: float, timed: RequestTiming) -> RequestTiming:
    moved = msgspec.structs.replace(timed, gaps=[round(gap, 6) for gap in timed.gaps])
    for name in ("scheduled", "t0", "ended", "first_token_at", "first_output_at", "last_token_at"):
        value = getattr(timed, name)
        if value is not None:
            setattr(moved, name, round(value - begin, 6))
    return moved
