"""Every policy over every trace and every small instance: the figures, as Markdown tables and one plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from bench.figures import nearest_rank, show, table
from bench.schedule.metrics import ScheduleMetrics, measure
from bench.schedule.optimum import least_waiting, windowed_bound
from bench.schedule.policies import FirstComeFirstServed, FixedReplicas, LlamaSwap
from bench.schedule.simulation import Policy, Simulation
from bench.schedule.stoker import StokerPolicy
from bench.schedule.synthetic import relaxed, small_instance, trace_of
from bench.schedule.traces import Trace

Maker = Callable[[Trace, Simulation], Policy]
STOKER, REPLICATED, RESTLESS = "Stoker", "Stoker, replicas", "Stoker, unprotected"
OWN = (STOKER, REPLICATED, RESTLESS)
FIRST_COME, LLAMA_SWAP = "first come, first served", "llama-swap's rule"
MEDIAN_GOAL, WORST_GOAL, OTHERS_GOAL = 1.5, 2.0, 1.05
POLICIES: dict[str, Maker] = {
    STOKER: lambda trace, fleet: StokerPolicy(trace, fleet),
    REPLICATED: lambda trace, fleet: StokerPolicy(trace, fleet, trace.replicas),
    RESTLESS: lambda trace, fleet: StokerPolicy(trace, fleet, is_protected=False),
    FIRST_COME: lambda trace, _: FirstComeFirstServed(trace),
    LLAMA_SWAP: lambda trace, _: LlamaSwap(trace),
    "one fixed replica": lambda trace, _: FixedReplicas(trace),
    "fixed replicas in turn": lambda trace, _: FixedReplicas(trace, spread=True),
}


class TraceReport(NamedTuple):
    trace: Trace
    metrics: dict[str, ScheduleMetrics]
    bound: float | None
    """No policy's sum of waiting is below this; None: arrivals depend on answers, so there is none."""


class InstanceReport(NamedTuple):
    seed: int
    optimum: float
    is_exact: bool
    ratios: dict[str, float]
    """By policy: its sum of waiting, times the optimum's."""
    is_exact_on_demand: bool
    on_demand: float
    """The ratio for Stoker and an optimum that, too, loads nothing before anybody asks for it."""


def run_policy(trace: Trace, name: str) -> ScheduleMetrics:
    simulation = Simulation(trace)
    return measure(trace, simulation.run(POLICIES[name](trace, simulation)))


def run_trace(trace: Trace, with_bound: bool) -> TraceReport:
    names = [name for name in POLICIES if name != REPLICATED or trace.replicas > 1]
    has_bound = with_bound and trace.is_open
    return TraceReport(
        trace, {name: run_policy(trace, name) for name in names}, windowed_bound(relaxed(trace)) if has_bound else None
    )


def run_instance(seed: int, limit: int = 50_000) -> InstanceReport:
    """`limit`: of the search for the optimum."""
    instance = small_instance(seed)
    trace = trace_of(instance, f"seed {seed}")
    best = least_waiting(instance, limit)
    on_demand = least_waiting(replace(instance, may_prefetch=False), limit)
    names = (STOKER, FIRST_COME, LLAMA_SWAP)
    waits = {name: run_policy(trace, name).wait_sum for name in names}
    return InstanceReport(
        seed=seed,
        optimum=best.seconds,
        is_exact=best.is_exact,
        is_exact_on_demand=on_demand.is_exact,
        ratios={name: wait / best.seconds for name, wait in waits.items()},
        on_demand=waits[STOKER] / on_demand.seconds,
    )


def instance_table(reports: Sequence[InstanceReport]) -> str:
    columns = {name: [one.ratios[name] for one in reports] for name in reports[0].ratios}
    columns[f"{STOKER}, beside an optimum that loads on demand"] = [one.on_demand for one in reports]
    rows = []
    for name, ratios in columns.items():
        worst = reports[ratios.index(max(ratios))]
        over = sum(ratio > WORST_GOAL for ratio in ratios)
        rows.append((name, show(median(ratios), 2), show(nearest_rank(ratios, 0.9), 2), show(max(ratios), 2),
                     str(worst.seed), str(over)))  # fmt: skip
    return table(("policy", "median", "p90", "worst", "its seed", f"above {WORST_GOAL:.0f}"), rows)


def trace_table(report: TraceReport) -> str:
    rows = []
    for name, one in report.metrics.items():
        rows.append((
            name, str(one.loads), show(one.wait_mean), show(one.wait_p50), show(one.wait_p95), show(one.wait_max),
            show(one.per_minute), show(None if one.cached is None else one.cached * 100, 0), show(one.fairness, 2),
            str(one.failed),
        ))  # fmt: skip
    head = ("policy", "loads", "wait, mean", "p50", "p95", "most", "answers/min", "cached, %", "fairness", "failed")
    return table(head, rows)


def verdicts(instances: Sequence[InstanceReport], traces: Sequence[TraceReport]) -> list[str]:
    """One line for each figure to reach, and whether it is."""
    ratios, on_demand = [one.ratios[STOKER] for one in instances], [one.on_demand for one in instances]
    lines = [
        _verdict("waiting, times the optimum's, median instance", median(ratios), MEDIAN_GOAL),
        _verdict("waiting, times the optimum's, worst instance", max(ratios), WORST_GOAL),
        _verdict("the same beside an optimum that loads on demand, median", median(on_demand), MEDIAN_GOAL),
        _verdict("the same beside an optimum that loads on demand, worst", max(on_demand), WORST_GOAL),
    ]
    for report in traces:
        own = report.metrics.get(REPLICATED) or report.metrics[STOKER]
        others = {n: m for n, m in report.metrics.items() if n not in OWN and not m.failed}
        if not others:
            continue
        name = min(others, key=lambda n: others[n].wait_mean)
        least = others[name].wait_mean
        share = own.wait_mean / least if least else (1.0 if not own.wait_mean else float("inf"))
        lines.append(_verdict(f"{report.trace.name}: mean waiting, times that of {name}", share, OTHERS_GOAL))
    return lines


def markdown(instances: Sequence[InstanceReport], traces: Sequence[TraceReport]) -> str:
    exact, on_demand = sum(one.is_exact for one in instances), sum(one.is_exact_on_demand for one in instances)
    parts = [
        f"Sum of waiting, times the least possible, over {len(instances)} small instances ({exact} solved exactly,"
        f" {on_demand} where loads wait for demand; of the others a lower bound of the least possible is taken):",
        instance_table(instances),
    ]
    for report in traces:
        bound = ""
        if report.bound is not None:
            mean = report.bound / len(report.trace.requests)
            bound = f" No policy has a mean waiting below {mean:.1f} s."
        trace = report.trace
        parts += [f"**{trace.name}**: {trace.description}, {len(trace.requests)} requests.{bound}", trace_table(report)]
    parts.append("\n".join(f"- {line}" for line in verdicts(instances, traces)))
    return "\n\n".join(parts) + "\n"


def _verdict(what: str, value: float, most: float) -> str:
    return f"{what}: {value:.2f}, at most {most:.2f} wanted{'' if value <= most else ': **missed**'}"
