"""`stoker eval benchmark`: what a model costs in time, by the load on it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, RequestRefused, UsageError

if TYPE_CHECKING:
    from stoker.domain.run import Run
    from stoker_lab.commands.targets import MeasurementTarget
    from stoker_lab.comparison.benchmarks import BenchmarkComparison
    from stoker_lab.load.presets import BenchmarkOptions, BenchmarkPlan


def benchmark(
    serve: options.OneServe = None,
    tier: options.Tier = None,
    config: options.Config = None,
    state: options.State = None,
    base_url: options.BaseUrl = None,
    model: options.ModelThere = None,
    key_env: options.KeyVariable = None,
    direct: Annotated[bool, typer.Option("--direct", help="Also measure the engine directly.")]
    = False,
    through: Annotated[
        str | None,
        typer.Option(
            "--through",
            metavar="EDGE",
            help="Measure the worker of this edge, through its public route and directly, in turns.",
            autocompletion=options.edge_names,
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="ladder, users, short, long, decode. Default: ladder.")
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option("--concurrency", metavar="N,N,...", help="Clients at once, instead of a ladder.")
    ] = None,
    prompt_tokens: Annotated[int | None, typer.Option("--prompt-tokens", min=1, help="Exact, with the template.")]
    = None,
    output_tokens: Annotated[int | None, typer.Option("--output-tokens", min=1, help="Length of one answer.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0, help="Minimum time of a step. Default: 30.")]
    = None,
    requests: Annotated[int | None, typer.Option("--requests", min=1, help="Minimum number in a step.")] = None,
    repeats: Annotated[int | None, typer.Option("--repeats", min=1, help="Repeats of each step. Default: 3.")] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="N,N,...", help="Requests a second at random times (open loop).")
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", help="What prompts share: warm (nothing), cold, half-shared, prefix-cached.")
    ] = "warm",
    slo_ttft: Annotated[str | None, typer.Option("--slo-ttft", metavar="TIME", help="Goodput: most TTFT.")] = None,
    slo_tpot: Annotated[str | None, typer.Option("--slo-tpot", metavar="TIME", help="Goodput: most TPOT.")] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="A Mooncake trace: its lengths, at its times.")
    ] = None,
    speed: Annotated[float, typer.Option("--speed", min=0.001, help="Speed of the replay: 2 is twice as fast.")] = 1.0,
    against: Annotated[
        str | None, typer.Option("--against", metavar="RESULT", help="An earlier result, to compare with.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a report with plots.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Send the prompts of an earlier run again. Default: new ones.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One short repeat of each step: rough figures.")] = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Measure time to first token and tokens per second under load. Ctrl-C keeps what was measured."""
    from stoker_lab.artifacts import result_file
    from stoker_lab.commands import benchmark_options, targets
    from stoker_lab.commands.save_run import save_run
    from stoker_lab.load import presets
    from stoker_lab.lock import hold_measurement_lock

    serve = options.measured_name(serve, tier)
    if replay is not None and (concurrency is not None or rate is not None):
        raise UsageError("a replay uses the recorded times: drop --concurrency and --rate (--speed makes it faster)")
    wanted = presets.BenchmarkOptions(
        preset=benchmark_options.preset_of(preset, replay is not None),
        concurrency=benchmark_options.clients_of(concurrency),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        seconds=seconds,
        requests=requests,
        repeats=repeats,
        rates=benchmark_options.rates_of(rate),
        modes=benchmark_options.modes_of(mode),
        slo_ttft=options.duration(slo_ttft, "--slo-ttft"),
        slo_tpot=options.duration(slo_tpot, "--slo-tpot"),
        speed=speed,
        quick=quick,
        seed=seed,
    )
    trace = benchmark_options.trace_of(replay) if replay is not None else []
    if through is not None:
        if serve is not None or base_url is not None:
            raise UsageError("--through measures the worker of an edge: leave out the serve and --base-url")
        found = targets.find_routed(through, config, state)
    else:
        found = targets.find_target(serve, base_url, model, key_env, direct, config, state)
    earlier = result_file.load(result_file.find(against, found.results)) if against is not None else None
    plan, size = benchmark_options.plan_of(wanted, found.context, trace)
    for note in found.notes:
        terminal.note(note)
    with hold_measurement_lock(found.results.parent, found.slot or found.serve, f"a benchmark of {found.serve}"):
        runs = measure(found, wanted, plan, size)
    paths = [save_run(run, found.results.parent) for run in runs]
    _show_results(runs, json)
    comparison = _compare(earlier, runs[0], json) if earlier is not None else None
    if html is not None:
        _write_report(html, runs, comparison, paths[0])
    for path in paths:
        terminal.note(f"saved: {path}")
    if any(run.outcome.value != "passed" for run in runs):
        raise typer.Exit(INTERRUPTED if any(run.outcome.value == "interrupted" for run in runs) else FAILED)


def _show_results(runs: list[Run], json: bool) -> None:
    import msgspec

    from stoker_lab.commands.benchmark_tables import show_benchmark

    if json:
        terminal.emit([msgspec.json.decode(msgspec.json.encode(run)) for run in runs])
    else:
        show_benchmark(runs)


def _compare(earlier: Run, run: Run, json: bool) -> BenchmarkComparison:
    """Also shows it, unless results are wanted as JSON."""
    from stoker_lab.commands.benchmark_tables import show_comparison
    from stoker_lab.comparison.benchmarks import compare_benchmarks

    comparison = compare_benchmarks(earlier, run)
    if not json:
        show_comparison(comparison)
    return comparison


def _write_report(path: Path, runs: list[Run], comparison: BenchmarkComparison | None, saved: Path) -> None:
    from stoker_lab.reports.benchmark_page import benchmark_page

    try:
        path.write_text(benchmark_page(runs, comparison), encoding="utf-8")
    except OSError as error:
        raise RequestRefused(f"--html {path}: {error.strerror}; the result itself was saved: {saved}") from error
    terminal.note(f"report: {path}")


def measure(
    found: MeasurementTarget, wanted: BenchmarkOptions, plan: BenchmarkPlan, size: tuple[int, int]
) -> list[Run]:
    """A Run for each route. Ctrl-C ends it early, `interrupted`. Raises UsageError."""
    from stoker.cli.console.progress import ProgressLine
    from stoker_lab.commands.interruptible import run_interruptible
    from stoker_lab.commands.this_machine import facts, is_short_of_memory, load
    from stoker_lab.load.benchmark import Benchmark, BenchmarkObserver
    from stoker_lab.load.prompts import PromptTooShort
    from stoker_lab.load.to_run import run_of_route

    machine = facts() | {"load_before": load()}
    at, begun = time.time(), time.perf_counter()
    interrupted = False
    with ProgressLine() as bar:
        bench = Benchmark(found.servers, wanted, plan, size, BenchmarkObserver(bar.show, is_short_of_memory))
        try:
            run_interruptible(bench.run())
        except KeyboardInterrupt:
            interrupted = True
        except PromptTooShort as error:
            raise UsageError(str(error)) from error
    seconds = time.perf_counter() - begun
    return [
        run_of_route(bench, server.route, found.subject(server.route), at, seconds, machine, interrupted)
        for server in found.servers
    ]
