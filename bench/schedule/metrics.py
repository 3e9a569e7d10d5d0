"""What a run is judged by. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from bench.figures import nearest_rank
from bench.schedule.simulation import SimulationResult
from bench.schedule.traces import Trace


class ScheduleMetrics(NamedTuple):
    """Waiting is from arrival to the start of service, in seconds."""

    loads: int
    wait_sum: float
    wait_mean: float
    wait_p50: float
    wait_p95: float
    wait_max: float
    per_minute: float
    """Answers."""
    cached: float | None
    """Share of the prompts' tokens that was not read again; None: prompts have no tokens."""
    fairness: float
    """Jain's index over keys: 1 if all spend the same share of their time being served; refused ones none."""
    failed: int
    """Requests that were refused or cut."""


def jain(values: Sequence[float]) -> float:
    """1: all equal; 1 / n: one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def measure(trace: Trace, result: SimulationResult) -> ScheduleMetrics:
    waits, ends, cached, tokens = [], [0.0], 0, 0
    shares: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for id, one in result.requests.items():
        request = trace.requests[id]
        if one.started is None or one.ended is None:
            shares[request.key].append((0.0, 1.0))
            continue
        wait, served = one.started - one.arrived, one.ended - one.started
        waits.append(wait)
        ends.append(one.ended)
        cached += one.cached
        tokens += request.input_tokens
        shares[request.key].append((served, served + wait))
    parts = [sum(s for s, _ in ones) / (sum(t for _, t in ones) or 1.0) for ones in shares.values()]
    failed = sum(one.is_refused or one.is_cut for one in result.requests.values())
    return ScheduleMetrics(
        loads=result.loads,
        wait_sum=sum(waits),
        wait_mean=fmean(waits) if waits else 0.0,
        wait_p50=nearest_rank(waits, 0.5) or 0.0,
        wait_p95=nearest_rank(waits, 0.95) or 0.0,
        wait_max=max(waits, default=0.0),
        per_minute=60 * (len(result.requests) - failed) / (max(ends) or 1.0),
        cached=cached / tokens if tokens else None,
        fairness=jain(parts),
        failed=failed,
    )
