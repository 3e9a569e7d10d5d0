"""Does a serve meet a gate? Pure: conditions and the newest measurements in, one finding per condition out.

1. what is asked for was never measured, is too old, or of another fingerprint  -> undecided: it is to be run
2. a whole measurement                                                          -> as it went
3. a bound of a rate: the interval lies on the right side                       -> passed
                      the whole interval lies on the wrong side                 -> failed
                      it holds the bound                                        -> undecided: more samples
4. a context that works, below the bound, and nothing longer was tried          -> undecided: a longer search
5. a number                                                                     -> compared
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stoker.domain.gate import Condition, Gate
from stoker.domain.run import Finding, Fingerprint, Kind, Outcome, Run
from stoker.measure.stats import wilson

MEASURED_BY = (
    ("ttft_", Kind.BENCHMARK), ("tpot_", Kind.BENCHMARK), ("e2e_", Kind.BENCHMARK), ("output_rate", Kind.BENCHMARK),
    ("goodput", Kind.BENCHMARK), ("requests_failed", Kind.BENCHMARK), ("request_rate", Kind.BENCHMARK),
    ("decode_rate", Kind.BENCHMARK), ("context", Kind.CONTEXT),
)  # fmt: skip
"""By how a metric begins, behind the step of a benchmark (`c4.ttft_p95`); what else there is comes from preflight."""
SEARCHED = ("context", "reported.context", "reported.slots")
"""Parts of a fingerprint that a context search sets by itself."""
_STEP = re.compile(r"[cr][0-9.]+\.")
_TIMES = ("ttft_", "tpot_", "e2e_")
"""Milliseconds in the run, seconds in a condition."""


def kind_of(condition: Condition) -> Kind:
    """The measurement that answers this condition."""
    if condition.whole is not None:
        return condition.whole
    name = _STEP.sub("", condition.metric)
    if name != condition.metric:
        return Kind.BENCHMARK
    return next((kind for start, kind in MEASURED_BY if name.startswith(start)), Kind.PREFLIGHT)


def usable(runs: Iterable[Run], serve: str, fingerprint: Fingerprint, max_age: float | None, now: float) -> list[Run]:
    """Measurements of just this serve as it is now, the newest first. An unknown fingerprint is nobody's."""
    return sorted(
        (
            run
            for run in runs
            if run.subject.serve == serve
            and run.outcome is not Outcome.INTERRUPTED
            and is_of(run.kind, run.subject.fingerprint, fingerprint)
            and (max_age is None or now - run.at <= max_age)
        ),
        key=lambda run: run.at,
        reverse=True,
    )


def may_be_of(kind: Kind, identity: str, execution: str, now: Fingerprint) -> bool:
    """Whether digests alone leave it open that this is a measurement of what runs now: then its parts decide."""
    return identity == now.identity != "" and (execution == now.execution or kind is Kind.CONTEXT)


def is_of(kind: Kind, measured: Fingerprint, now: Fingerprint) -> bool:
    """Whether what was measured is what runs now. A context search says the same whatever limit it runs with."""
    if not may_be_of(kind, measured.identity, measured.execution, now):
        return False
    mine, yours = ({k: v for k, v in one.parts.items() if k not in SEARCHED} for one in (measured, now))
    return mine == yours or measured.execution == now.execution


def missing(gate: Gate, runs: Sequence[Run]) -> list[Kind]:
    """What has to be run before the gate can be judged, each kind once, in the gate's order."""
    have = {run.kind for run in runs}
    return [kind for kind in dict.fromkeys(map(kind_of, gate.conditions)) if kind not in have]


def judge(gate: Gate, runs: Sequence[Run]) -> list[Finding]:
    """`runs` as `usable` gives them."""
    newest: dict[Kind, Run] = {}
    for run in runs:
        newest.setdefault(run.kind, run)
    return [_judge(condition, newest.get(kind_of(condition))) for condition in gate.conditions]


def outcome_of(findings: Iterable[Finding]) -> Outcome:
    """All have to pass; one failure is enough to fail; else it is not decided."""
    outcomes = {finding.outcome for finding in findings}
    if Outcome.FAILED in outcomes:
        return Outcome.FAILED
    return Outcome.PASSED if outcomes == {Outcome.PASSED} else Outcome.UNDECIDED


def _judge(condition: Condition, run: Run | None) -> Finding:
    name = condition.text
    if run is None:
        return Finding(name, Outcome.UNDECIDED, f"no {kind_of(condition)} of this serve as it is now")  # 1
    if condition.whole is not None:  # 2
        failed = [finding.name for finding in run.findings if finding.outcome is Outcome.FAILED]
        said = f"failed: {', '.join(failed)}" if failed else run.outcome.value
        return Finding(name, run.outcome, f"{run.kind} {run.id}: {said}")
    if condition.rate:
        return _judge_rate(condition, run)  # 3
    seen = run.numbers.get(condition.metric)
    if seen is None:
        return Finding(name, Outcome.UNDECIDED, f"{run.kind} {run.id} has no {condition.metric}")  # 1
    if condition.op in (">", ">=") and not condition.holds(seen) and _went_on_working(run):
        return Finding(name, Outcome.UNDECIDED, f"{condition.metric} = {seen}, and nothing longer was tried")  # 4
    is_time = _STEP.sub("", condition.metric).startswith(_TIMES)
    outcome = Outcome.PASSED if condition.holds(seen / 1000 if is_time else seen) else Outcome.FAILED  # 5
    text = f"{condition.metric} = {seen:.4g}{' ms' if is_time else ''}"
    return Finding(name, outcome, text, numbers={condition.metric: seen})


def _went_on_working(run: Run) -> bool:
    """A context search that found no length too long."""
    return run.kind is Kind.CONTEXT and all(one.outcome is Outcome.PASSED for one in run.findings)


def _judge_rate(condition: Condition, run: Run) -> Finding:
    rate = condition.rate
    passed, n = run.numbers.get(f"{rate}.passed"), run.numbers.get(f"{rate}.n")
    if not isinstance(passed, int) or not isinstance(n, int) or n == 0:
        return Finding(condition.text, Outcome.UNDECIDED, f"{run.kind} {run.id} has no {rate}")
    interval = wilson(passed, n)
    numbers: dict[str, float | int | None] = {"passed": passed, "n": n, "lower": interval.low, "upper": interval.high}
    seen = f"{passed} of {n}, 95 % interval {interval.low:.3f} to {interval.high:.3f}"
    is_lower = condition.metric.endswith(".lower")
    bound, other = (interval.low, interval.high) if is_lower else (interval.high, interval.low)
    if condition.holds(bound):
        return Finding(condition.text, Outcome.PASSED, seen, numbers=numbers)
    outcome = Outcome.UNDECIDED if condition.holds(other) else Outcome.FAILED
    return Finding(condition.text, outcome, seen, numbers=numbers)
