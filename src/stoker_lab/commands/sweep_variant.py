"""One variant of a sweep: started on a port of its own, looked at, measured for a short while, stopped."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoker.domain.errors import UpstreamError
from stoker.domain.figures import counted
from stoker.domain.serve import ServeIdentity
from stoker.engines.plan import problems, unsupported
from stoker_lab.load.benchmark import Benchmark
from stoker_lab.load.presets import BenchmarkOptions, BenchmarkPlan, clients_step, token_sizes
from stoker_lab.load.prompts import PromptSharing, PromptTooShort
from stoker_lab.load.to_run import run_of_route
from stoker_lab.requests.endpoint import MeasuredEndpoint
from stoker_lab.trials.context_search import EngineNotStarted, StartedEngine
from stoker_lab.trials.sweep import Variant, VariantFailure, apply_variant

if TYPE_CHECKING:
    from stoker.domain.run import Run, Subject
    from stoker.domain.serve import Serve
    from stoker_lab.commands.own_engine import OwnEngine

SMOKE = ("model", "echo", "usage")
"""Checks of the preflight that a variant has to pass."""


_POLL_INTERVAL, _POLLS = 0.05, 10


@dataclass(frozen=True, slots=True)
class SweepLoad:
    clients: int
    seconds: float
    limit: float
    """Seconds that one variant may take, its start not counted."""
    output: int | None = None


async def measure_variant(row: Variant, serve: Serve, engine: OwnEngine, load: SweepLoad, subject: Subject) -> None:
    """Fill the row in. Raises nothing but on cancel; then nothing of the engine is left and the row is not over.

    1. its engine cannot express it  2. it does not start  3. it takes too long  4. it ends meanwhile
    5. it answers wrongly  6. requests fail  7. measured
    """
    began = time.monotonic()
    variant = apply_variant(serve, row.settings)
    if missing := unsupported(variant) or problems(variant):  # 1
        _fail(row, VariantFailure.UNSUPPORTED, "; ".join(missing), "leave this value out", began)
        return
    try:
        started = await engine.launch(variant)
    except EngineNotStarted as error:  # 2
        _fail(row, error.kind or VariantFailure.START_FAILED, error.log_line, error.fix, began)
        return
    ready = time.monotonic() - began
    try:
        async with asyncio.timeout(load.limit):
            await _measure(row, started, variant, load, subject)
    except TimeoutError:  # 3
        _fail(row, VariantFailure.TIMEOUT, f"not measured within {load.limit:g} s", "give it more with --limit", began)
    finally:
        ended = await _end_of(started, row)
        await started.stop()
    if ended is not None and row.outcome != "measured":  # 4
        _fail(row, ended.kind or VariantFailure.DIED, ended.log_line, ended.fix, began)
    row.numbers["start_seconds"] = round(ready, 3)
    row.seconds = round(time.monotonic() - began, 3)


async def _end_of(started: StartedEngine, row: Variant) -> EngineNotStarted | None:
    """How the engine ended by itself. One whose connections broke may be about to end."""
    for _ in range(_POLLS):
        ended = started.failure()
        if ended is not None or row.failure not in (VariantFailure.REQUESTS_FAILED, VariantFailure.SMOKE_FAILED):
            return ended
        await asyncio.sleep(_POLL_INTERVAL)
    return None


async def _measure(row: Variant, started: StartedEngine, variant: Serve, load: SweepLoad, subject: Subject) -> None:
    from stoker_lab.preflight.run import PreflightOptions, run_preflight

    server = MeasuredEndpoint("direct", started.target)
    options = PreflightOptions(only=SMOKE, lists_models=variant.identity is not ServeIdentity.NONE)
    async with asyncio.TaskGroup() as group:  # a preflight ends in order when it is cancelled, and we want to know
        smoking = group.create_task(run_preflight(subject, started.target, options))
    smoke = smoking.result()
    wrong = [one for one in smoke.findings if one.outcome.value in ("failed", "interrupted")]
    if wrong:  # 5
        _fail(row, VariantFailure.SMOKE_FAILED, f"{wrong[0].name}: {wrong[0].observed}", wrong[0].fix)
        return
    wanted = BenchmarkOptions(quick=True, repeats=1, seconds=load.seconds, output_tokens=load.output)
    try:
        size = token_sizes(wanted, variant.context)
        clients = dict.fromkeys((1, load.clients))
        steps = [clients_step(wanted, one, *size, PromptSharing.WARM) for one in clients]
        bench = Benchmark([server], wanted, BenchmarkPlan(steps, False, 1, 1, False), size)
        await bench.run()
    except (UpstreamError, PromptTooShort, ValueError) as error:  # 6
        _fail(row, VariantFailure.REQUESTS_FAILED, str(error), "look at its log")
        return
    _take(row, run_of_route(bench, "direct", subject, time.time(), 0.0, {}), variant)


def _take(row: Variant, run: Run, variant: Serve) -> None:
    """Rates are those of all clients; the time to the first token and the pace of one answer those of one client."""
    steps = [finding for finding in run.findings if "requests_ok" in finding.numbers]
    one, all_ = steps[0], steps[-1]
    if failed := sum(int(step.numbers.get("requests_failed") or 0) for step in steps):  # 6
        _fail(
            row,
            VariantFailure.REQUESTS_FAILED,
            "; ".join(f"{step.name}: {step.observed}" for step in steps),
            "look at its log",
        )
        row.numbers["requests_failed"] = failed
        return
    row.numbers = {
        "context": variant.context, "parallel": variant.parallel, "clients": all_.numbers.get("clients"),
        "output_rate": all_.numbers.get("output_rate"), "ttft_p50_loaded": all_.numbers.get("ttft_p50"),
        "ttft_p50": one.numbers.get("ttft_p50"), "decode_rate": one.numbers.get("decode_rate"),
        "output_rate_single": one.numbers.get("output_rate"),
        "requests_ok": sum(int(step.numbers.get("requests_ok") or 0) for step in steps),
    }  # fmt: skip
    row.outcome, row.failure = "measured", ""  # 7
    row.observed = f"{counted(row.numbers['requests_ok'], 'request')} answered"


def _fail(row: Variant, failure: str, observed: str, fix: str, began: float | None = None) -> None:
    row.outcome, row.failure, row.observed, row.fix = "failed", str(failure), observed, fix
    if began is not None:
        row.seconds = round(time.monotonic() - began, 3)
