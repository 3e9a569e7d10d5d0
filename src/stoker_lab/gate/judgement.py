"""Does a serve meet a gate? Pure: conditions and the newest measurements in, one finding per condition out.

1. the measurement is missing, too old, or has another fingerprint              -> undecided: it is to be run
2. a whole measurement                                                          -> as it went
3. a bound of a rate: the interval lies on the right side                       -> passed
                      the whole interval lies on the wrong side                 -> failed
                      it holds the bound                                        -> undecided: more samples
4. a context that works, below the bound, and no longer context was tried          -> undecided: a longer search
5. a figure of a benchmark: requests of its step failed                         -> failed: only survivors counted
                            fewer requests than the figure takes                -> undecided: it is to be run
6. a number                                                                     -> compared

If a new measurement lacks the required figure, it is not repeated: the serve does not report the figure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stoker.domain.figures import counted
from stoker.domain.gate import Condition, Gate
from stoker.domain.run import Finding, Fingerprint, Outcome, Run, RunKind
from stoker.domain.task import CLASSES
from stoker_lab.gate.measurements import TIMES, class_of, figure_of, kind_of, needed_step, samples_for
from stoker_lab.load.prompts import PromptSharing
from stoker_lab.statistics.stats import wilson

SEARCHED = ("context", "reported.context", "reported.slots")
"""Parts of a fingerprint that a context search sets by itself."""
UNKNOWN = "unknown"
"""The text of an ignored finding begins with this."""


def usable_runs(
    runs: Iterable[Run], serve: str, fingerprint: Fingerprint, max_age: float | None, now: float,
    unknown_ok: bool = False,
) -> list[Run]:  # fmt: skip
    """Measurements of this serve with its current fingerprint, the newest first. An unknown fingerprint matches nothing
    unless `unknown_ok` treats its unknown parts as unchanged."""
    return sorted(
        (
            run
            for run in runs
            if run.subject.serve == serve
            and run.outcome is not Outcome.INTERRUPTED
            and matches(run.kind, run.subject.fingerprint, fingerprint, unknown_ok)
            and (max_age is None or now - run.at <= max_age)
        ),
        key=lambda run: run.at,
        reverse=True,
    )


def may_match(kind: RunKind, identity: str, execution: str, now: Fingerprint, unknown_ok: bool = False) -> bool:
    """Whether the digests allow that this measurement is of the current model; if so, the parts decide."""
    is_known = now.identity != "" or unknown_ok
    return is_known and identity == now.identity and (execution == now.execution or kind is RunKind.CONTEXT)


def matches(kind: RunKind, measured: Fingerprint, now: Fingerprint, unknown_ok: bool = False) -> bool:
    """Whether the measured fingerprint is the current one. A context search is valid under any context limit.

    `unknown_ok`: if the identity is unknown, its known parts have to be the same.
    """
    if not may_match(kind, measured.identity, measured.execution, now, unknown_ok):
        return False
    mine, yours = ({k: v for k, v in one.parts.items() if k not in SEARCHED} for one in (measured, now))
    return mine == yours or (measured.execution == now.execution and now.identity != "")


def missing_kinds(gate: Gate, runs: Sequence[Run], classes: Collection[str] = CLASSES) -> list[RunKind]:
    """What has to be run before the gate can be judged, each kind once, in the gate's order."""
    return list(dict.fromkeys(kind_of(condition, classes) for condition in unanswered_conditions(gate, runs, classes)))


def unanswered_conditions(gate: Gate, runs: Sequence[Run], classes: Collection[str] = CLASSES) -> list[Condition]:
    """The conditions that no measurement says anything about."""
    return [one for one in gate.conditions if not any(answers(run, one, classes) for run in runs)]


def answers(run: Run, condition: Condition, classes: Collection[str] = CLASSES) -> bool:
    """Whether a measurement has what the condition asks for, from samples enough."""
    kind = kind_of(condition, classes)
    if run.kind is not kind:
        return False
    if kind is RunKind.BOOTSTRAP:
        asked = run.setting("whole")
        return isinstance(asked, list) and class_of(condition, classes) in asked
    if kind is not RunKind.BENCHMARK:
        return True
    if not _is_of_fresh_prompts(run):
        return False
    seen, n, failed = _figure(run, condition)
    need = needed_step(condition)
    return bool(failed) or (seen is not None and (need is None or n is None or n >= need.requests))


def judge_gate(
    gate: Gate, runs: Sequence[Run], classes: Collection[str] = CLASSES, unknown: Iterable[str] = ()
) -> list[Finding]:
    """`runs` as `usable` gives them. `unknown`: texts of conditions that cannot be known of this serve; they are not
    judged, and their finding says so."""
    found = []
    for condition in gate.conditions:
        kind = kind_of(condition, classes)
        own = [run for run in runs if run.kind is kind]
        run = next((run for run in own if answers(run, condition, classes)), own[0] if own else None)
        found.append(_judge(condition, run, kind, class_of(condition, classes)))
    for finding in found:
        if finding.name in unknown and finding.outcome is Outcome.UNDECIDED:
            finding.outcome = Outcome.NOT_APPLICABLE
            finding.observed = f"{UNKNOWN}, and ignored: {finding.observed}"
    return found


def outcome_of(findings: Iterable[Finding]) -> Outcome:
    """All have to pass; one failure is enough to fail; else it is not decided. What was set aside has no say, as long
    as something else passed."""
    outcomes = {finding.outcome for finding in findings} - {Outcome.NOT_APPLICABLE}
    if Outcome.FAILED in outcomes:
        return Outcome.FAILED
    return Outcome.PASSED if outcomes == {Outcome.PASSED} else Outcome.UNDECIDED


def _judge(condition: Condition, run: Run | None, kind: RunKind, task_class: str) -> Finding:
    name = condition.text
    if run is None:
        of = f" of {task_class}" if task_class else ""
        return Finding(
            name,
            Outcome.UNDECIDED,
            f"no {kind.value}{of} was measured on this serve with its current model and settings",
        )  # 1
    if condition.measurement is not None:  # 2
        failed = [finding.name for finding in run.findings if finding.outcome is Outcome.FAILED]
        said = f"failed: {', '.join(failed)}" if failed else run.outcome.value
        outcome = Outcome.UNDECIDED if run.outcome is Outcome.NOT_APPLICABLE else run.outcome
        return Finding(name, outcome, f"{run.kind} {run.id}: {said}")
    if condition.rate:
        return _judge_rate(condition, run)  # 3
    if kind is RunKind.BENCHMARK:
        return _judge_figure(condition, run)  # 5, 6
    seen = run.numbers.get(condition.metric)
    if seen is None:
        return Finding(name, Outcome.UNDECIDED, f"{run.kind} {run.id} has no {condition.metric}")  # 1
    if condition.op in (">", ">=") and not condition.holds(seen) and _went_on_working(run):
        return Finding(name, Outcome.UNDECIDED, f"{condition.metric} = {seen}, and no longer context was tried")  # 4
    outcome = Outcome.PASSED if condition.holds(seen) else Outcome.FAILED  # 6
    return Finding(name, outcome, f"{condition.metric} = {seen:.4g}", numbers={condition.metric: seen})


def _judge_figure(condition: Condition, run: Run) -> Finding:
    name, metric = condition.text, condition.metric
    seen, n, failed = _figure(run, condition)
    need = needed_step(condition)
    if failed and figure_of(condition) != "requests_failed":  # 5
        of = f"{failed} of {counted(failed + (n or 0), 'request')}"
        return Finding(name, Outcome.FAILED, f"{of} failed: figures of the rest prove nothing")
    if not _is_of_fresh_prompts(run):
        return Finding(name, Outcome.UNDECIDED, f"{run.kind} {run.id} did not use fresh prompts (mode warm)")
    if seen is None or (need is not None and n is not None and n < need.requests):
        why = f"{run.kind} {run.id} has no {metric}" if seen is None else f"{metric} = {_shown(metric, seen)}"
        answered = f"; {counted(n, 'request')} answered, {need.requests} needed" if need is not None and n else ""
        return Finding(name, Outcome.UNDECIDED, why + answered)
    is_time = figure_of(condition).startswith(TIMES)
    outcome = Outcome.PASSED if condition.holds(seen / 1000 if is_time else seen) else Outcome.FAILED  # 6
    over = f" over {counted(n, 'request')}" if n is not None else ""
    return Finding(name, outcome, f"{metric} = {_shown(metric, seen)}{over}", numbers={metric: seen})


def _figure(run: Run, condition: Condition) -> tuple[float | None, int | None, int]:
    """Of its step, or of the first one: the figure, how many requests were answered, how many failed."""
    figure = figure_of(condition)
    step = condition.metric.removesuffix(figure).removesuffix(".")
    steps = [one for one in run.findings if "requests_ok" in one.numbers]
    own = next((one for one in steps if one.name == step), None) if step else steps[0] if steps else None
    if own is None:
        return run.numbers.get(condition.metric), None, int(run.numbers.get("requests_failed") or 0)
    n, failed = own.numbers.get("requests_ok"), own.numbers.get("requests_failed")
    if own.outcome is Outcome.UNDECIDED:  # sent too late: it says nothing
        return None, int(n or 0), int(failed or 0)
    seen = own.numbers.get(figure, None if step else run.numbers.get(figure))
    return seen, int(n or 0), int(failed or 0)


def _is_of_fresh_prompts(run: Run) -> bool:
    modes = run.setting("modes")
    return not isinstance(modes, list) or not modes or modes[0] in (PromptSharing.WARM, PromptSharing.COLD)


def _shown(metric: str, seen: float) -> str:
    is_time = metric.rpartition(".")[2].startswith(TIMES)
    return f"{seen:.4g}{' ms' if is_time else ''}"


def _went_on_working(run: Run) -> bool:
    return run.kind is RunKind.CONTEXT and all(one.outcome is Outcome.PASSED for one in run.findings)


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
    if not condition.holds(other):
        return Finding(condition.text, Outcome.FAILED, seen, numbers=numbers)
    least = samples_for(condition)
    few = f"; even if all pass, {least} samples are needed" if least is not None and n < least else ""
    return Finding(condition.text, Outcome.UNDECIDED, seen + few, numbers=numbers)
