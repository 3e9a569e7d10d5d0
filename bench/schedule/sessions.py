"""What sessions, not requests, get from each policy: the tables of `python -m bench.schedule --trace agentx`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from bench.figures import nearest_rank, show, table
from bench.schedule.agentx import agentx, alone, root, team
from bench.schedule.metrics import jain
from bench.schedule.policies import FirstComeFirstServed, LlamaSwap, LruRouter, OllamaKeepAlive
from bench.schedule.session_optimum import least_completion, session_instance, session_trace
from bench.schedule.simulation import Policy, Simulation, SimulationResult
from bench.schedule.stoker import StokerPolicy
from bench.schedule.traces import Trace

Maker = Callable[[Trace, Simulation], Policy]
STOKER, FIRST_COME, LLAMA_SWAP = "Stoker", "first come, first served", "llama-swap's rule"
POLICIES: dict[str, Maker] = {
    STOKER: lambda trace, fleet: StokerPolicy(trace, fleet),
    "Stoker, `max_wait` 1 h": lambda trace, fleet: StokerPolicy(trace, fleet, max_wait=3600.0),
    FIRST_COME: lambda trace, _: FirstComeFirstServed(trace),
    LLAMA_SWAP: lambda trace, _: LlamaSwap(trace),
    "llama.cpp's router": lambda trace, _: LruRouter(trace),
    "Ollama's keep-alive": lambda trace, _: OllamaKeepAlive(trace),
}
COMPLETION_GOAL, TAIL_GOAL, FAIRNESS_GOAL = 0.6, 1.0, 0.95
MEDIAN_GOAL, WORST_GOAL = 1.25, 2.0
TEAM_MEAN_GOAL, TEAM_TAIL_GOAL = 0.5, 1.1


class SessionMetrics(NamedTuple):
    """Of one run. Seconds; a session counts with its subagents."""

    completions: list[float]
    """From the first request's arrival to the last one's end."""
    slowdowns: list[float]
    """These, times what the session takes when it is alone."""
    waits: list[float]
    """Of requests: from arrival to the first token."""
    makespan: float
    loads: int
    cached: float | None
    """Share of the prompts' tokens that was not read again."""


class SessionReport(NamedTuple):
    """One trace from several seeds."""

    trace: Trace
    runs: dict[str, list[SessionMetrics]]
    """By policy, in the order of the seeds."""


class SessionInstanceReport(NamedTuple):
    seed: int
    is_exact: bool
    ratios: dict[str, float]
    """By policy: its sum of completion times, times the least possible of all that load on demand."""


def completions(trace: Trace, result: SimulationResult) -> dict[str, float]:
    """By session: from its first request's arrival to the end of its last one."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for id, one in result.requests.items():
        name = root(trace.requests[id].session)
        first[name] = min(first.get(name, one.arrived), one.arrived)
        last[name] = max(last.get(name, 0.0), one.ended or 0.0)
    return {name: last[name] - first[name] for name in first}


def measure_sessions(trace: Trace, result: SimulationResult, alone_for: Mapping[str, float]) -> SessionMetrics:
    taken = completions(trace, result)
    served = [(trace.requests[id], one) for id, one in result.requests.items() if one.started is not None]
    tokens = sum(request.input_tokens for request, _ in served)
    return SessionMetrics(
        list(taken.values()),
        [seconds / alone_for[name] for name, seconds in taken.items()],
        [(one.started or 0.0) + one.reading - one.arrived for _, one in served],
        max(one.ended or 0.0 for _, one in served),
        result.loads,
        sum(one.cached for _, one in served) / tokens if tokens else None,
    )


def run_sessions(traces: Sequence[Trace], names: Sequence[str] = tuple(POLICIES)) -> SessionReport:
    """`traces`: the same, from several seeds."""
    runs: dict[str, list[SessionMetrics]] = {name: [] for name in names}
    for trace in traces:
        alone_for = {
            name: completions(part, Simulation(part).run(FirstComeFirstServed(part)))[name]
            for name, part in alone(trace).items()
        }
        for name in names:
            simulation = Simulation(trace)
            result = simulation.run(POLICIES[name](trace, simulation))
            runs[name].append(measure_sessions(trace, result, alone_for))
    return SessionReport(traces[0], runs)


def session_table(report: SessionReport) -> str:
    """Figures over the sessions, or requests, of all seeds; of makespan, loads and fairness the mean over seeds."""
    head = ("policy", "completion, mean", "p95", "slowdown, mean", "p95", "first token, mean", "p95", "most",
            "all done", "loads", "cached, %", "fairness")  # fmt: skip
    rows = []
    for name, runs in report.runs.items():
        taken, slow, waits = _all(runs, "completions"), _all(runs, "slowdowns"), _all(runs, "waits")
        cached = [run.cached for run in runs if run.cached is not None]
        rows.append((
            name, show(fmean(taken), 0), show(nearest_rank(taken, 0.95), 0), show(fmean(slow), 2),
            show(nearest_rank(slow, 0.95), 2), show(fmean(waits)), show(nearest_rank(waits, 0.95)), show(max(waits)),
            show(fmean(run.makespan for run in runs), 0), show(fmean(run.loads for run in runs), 0),
            show(fmean(cached) * 100, 0) if cached else "-", show(fairness(runs), 2),
        ))  # fmt: skip
    return table(head, rows)


def fairness(runs: Sequence[SessionMetrics]) -> float:
    """Jain's index over the slowdowns of a run's sessions, the mean over runs: 1 if all are slowed down alike."""
    return fmean(jain(run.slowdowns) for run in runs)


def run_session_instance(seed: int, limit: int = 30_000) -> SessionInstanceReport:
    """`limit`: of the search for the optimum."""
    instance = session_instance(seed)
    best = least_completion(instance, limit)
    trace = session_trace(instance)
    ratios = {}
    for name in (STOKER, FIRST_COME, LLAMA_SWAP):
        simulation = Simulation(trace)
        taken = completions(trace, simulation.run(POLICIES[name](trace, simulation)))
        ratios[name] = sum(taken.values()) / best.seconds
    return SessionInstanceReport(seed, best.is_exact, ratios)


def session_instance_table(reports: Sequence[SessionInstanceReport]) -> str:
    rows = []
    for name in reports[0].ratios:
        ratios = [one.ratios[name] for one in reports]
        worst = reports[ratios.index(max(ratios))]
        rows.append((name, show(median(ratios), 2), show(nearest_rank(ratios, 0.9), 2), show(max(ratios), 2),
                     str(worst.seed)))  # fmt: skip
    return table(("policy", "median", "p90", "worst", "its seed"), rows)


def session_verdicts(reports: Sequence[SessionReport], instances: Sequence[SessionInstanceReport]) -> list[str]:
    lines = []
    for report in reports:
        own, other = report.runs[STOKER], report.runs[LLAMA_SWAP]
        taken, theirs = _all(own, "completions"), _all(other, "completions")
        waits, their_waits = _all(own, "waits"), _all(other, "waits")
        beside = f"{report.trace.name}: times that of llama-swap's rule:"
        if report.trace.name == "team":
            lines += [
                _verdict(f"{beside} first token, mean", fmean(waits) / fmean(their_waits), TEAM_MEAN_GOAL),
                _verdict(f"{beside} first token, p95", _p95(waits) / _p95(their_waits), TEAM_TAIL_GOAL),
            ]
            continue
        lines += [
            _verdict(f"{beside} completion, mean", fmean(taken) / fmean(theirs), COMPLETION_GOAL),
            _verdict(f"{beside} completion, p95", _p95(taken) / _p95(theirs), TAIL_GOAL),
            _verdict(f"{report.trace.name}: fairness", fairness(own), FAIRNESS_GOAL, is_least=True),
        ]
    ratios = [one.ratios[STOKER] for one in instances]
    return [
        *lines,
        _verdict("sum of completions, times the optimum on demand, median", median(ratios), MEDIAN_GOAL),
        _verdict("sum of completions, times the optimum on demand, worst", max(ratios), WORST_GOAL),
    ]


def agentx_markdown(quick: bool, instances: int) -> str:
    """All tables of `--trace agentx`."""
    seeds = range(1, 3 if quick else 11)
    reports = [
        run_sessions([team(seed) for seed in seeds]),
        run_sessions([agentx(seed, 6 if quick else 16) for seed in seeds]),
        run_sessions([agentx(seed, 6 if quick else 24, slots=2) for seed in seeds]),
    ]
    small = [run_session_instance(seed, 3_000 if quick else 30_000) for seed in range(instances)]
    parts = []
    for report in reports:
        trace = report.trace
        parts += [f"**{trace.name}**: {trace.description}; {len(seeds)} seeds.", session_table(report)]
    exact = sum(one.is_exact for one in small)
    parts += [
        f"Sum of completion times, times the least possible of all that load on demand, over {len(small)} small"
        f" instances ({exact} solved exactly; of the others a lower bound is taken):",
        session_instance_table(small),
        "\n".join(f"- {line}" for line in session_verdicts(reports, small)),
    ]
    return "\n\n".join(parts) + "\n"


def _all(runs: Sequence[SessionMetrics], name: str) -> list[float]:
    return [value for run in runs for value in getattr(run, name)]


def _p95(values: Sequence[float]) -> float:
    return nearest_rank(values, 0.95) or 0.0


def _verdict(what: str, value: float, goal: float, is_least: bool = False) -> str:
    is_met = value >= goal if is_least else value <= goal
    return (
        f"{what}: {value:.2f}, at {'least' if is_least else 'most'} {goal:.2f} wanted{'' if is_met else ': **missed**'}"
    )
