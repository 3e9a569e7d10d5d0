"""`stoker eval preflight`: what a serve must do before it takes traffic, check by check."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, NotRunning, UsageError
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.cli.evaluate.targets import MeasurementTarget
    from stoker.domain.run import Run
    from stoker.measure.preflight.run import OnProgress, PreflightOptions


def preflight(
    serve: options.OneServe = None,
    tier: options.Tier = None,
    config: options.Config = None,
    state: options.State = None,
    base_url: options.BaseUrl = None,
    model: options.ModelThere = None,
    key_env: options.KeyVariable = None,
    needle_ctx: Annotated[
        int | None, typer.Option("--needle-ctx", min=64, metavar="N", help="Prompt tokens of the longest needle.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", metavar="CHECK,...", help="These checks only.")] = None,
    wording: Annotated[
        str | None, typer.Option("--wording", metavar="NAME", help="Wording of the questions. Default: by the model.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="RESULT", help="An earlier preflight: prompts must cost the same tokens."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the checks: what each proves and cannot see.")] = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Prove that a serve answers as it should: template, tools, JSON, context, streams. Exit 1 if a check fails."""
    from stoker.cli.evaluate.save_run import save_run
    from stoker.measure.artifacts import result_file
    from stoker.measure.lock import hold_measurement_lock
    from stoker.measure.preflight.run import PreflightOptions, chosen_checks, recorded_numbers

    names = tuple(name.strip() for name in (only or "").split(",") if name.strip())
    try:
        checks = chosen_checks(names)
    except ValueError as error:
        raise UsageError(f"--only: {error}") from error
    if list_:
        _list(json)
        return
    found = _found(options.measured_name(serve, tier), base_url, model, key_env, config, state)
    earlier = (
        recorded_numbers(result_file.load(result_file.find(baseline, found.results))) if baseline is not None else {}
    )
    wanted = PreflightOptions(only=names, needle_ctx=needle_ctx, wording=wording, baseline=earlier)
    lock = hold_measurement_lock(found.results.parent, found.slot or found.serve, f"a preflight of {found.serve}")
    with lock, live_line(len(checks), quiet=json) as on_progress:
        run = measure(found, wanted, on_progress)
    if json:
        import msgspec

        terminal.emit(msgspec.json.decode(msgspec.json.encode(run)))
    else:
        show(run)
    terminal.note(f"saved: {save_run(run, found.results.parent)}")  # after it was shown: a full disk loses nothing
    if run.outcome.value != "passed":
        raise typer.Exit(FAILED)


def _list(json: bool) -> None:
    from stoker.measure.preflight.table import CHECKS, DIALECTS

    if json:
        terminal.emit([{"gate": one.name, "proves": one.proves, "cannot_see": one.cannot_see} for one in CHECKS])
    else:
        terminal.table(("CHECK", "PROVES", "CANNOT SEE"), [(one.name, one.proves, one.cannot_see) for one in CHECKS])
        terminal.note(DIALECTS)


def _found(
    serve: str | None, base_url: str | None, model: str | None, key_env: str | None, config: str | None,
    state: str | None,
) -> MeasurementTarget:  # fmt: skip
    """Raises UsageError with the command that helps."""
    from stoker.cli.evaluate import targets

    try:
        return targets.find_target(serve, base_url, model, key_env, False, config, state)
    except NotRunning as error:
        raise UsageError(error.message, code=error.code) from error


def measure(found: MeasurementTarget, wanted: PreflightOptions, on_progress: OnProgress) -> Run:
    """Raises UsageError for a wording that there is not."""
    import asyncio

    from stoker.cli.evaluate.this_machine import facts
    from stoker.measure.artifacts import result_file
    from stoker.measure.preflight import run as measured

    server, machine = found.servers[0], facts()
    try:
        run = asyncio.run(measured.run_preflight(found.subject(server.route), server.target, wanted, on_progress))
    except ValueError as error:
        raise UsageError(f"--wording: {error}") from error
    run.machine = result_file.raws(machine)
    return run


def show(run: Run) -> None:
    """Every check, then each failure with its likely cause and fix."""
    rows = [
        (one.name, one.outcome.value, "-" if one.seconds is None else f"{one.seconds:.1f} s", one.observed)
        for one in run.findings
    ]
    terminal.table(("CHECK", "OUTCOME", "TOOK", "SEEN"), rows, right=("TOOK",))
    failures = [one for one in run.findings if one.outcome.value == "failed"]
    for one in failures:
        terminal.say(f"\n{one.name}: {one.observed}")
        if one.cause:
            terminal.say(f"  likely cause: {one.cause}\n  fix: {one.fix}")
    judged, passed = run.numbers["gates.n"], run.numbers["gates.passed"]
    checks = f"{passed} of {counted(judged, 'check')}"
    terminal.say(f"\n{run.subject.model}: {run.outcome.value}, {checks}, {run.seconds:.1f} s")


@contextmanager
def live_line(count: int, quiet: bool) -> Iterator[OnProgress]:
    """One live line on a terminal, nothing elsewhere: the table comes soon enough."""
    if quiet or not terminal.is_live(stderr=True):
        yield lambda step: None
        return
    checks = counted(count, "check")
    with terminal.console(stderr=True).status(f"asking the server about itself, then {checks}") as line:
        yield lambda step: line.update(f"{step.at + 1} of {step.of}: {step.check}")
