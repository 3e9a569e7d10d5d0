"""`stoker eval preflight`: what a serve must do before it takes traffic, check by check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, NotRunning, UsageError
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.domain.run import Run
    from stoker_lab.commands.targets import MeasurementTarget
    from stoker_lab.preflight.run import PreflightOptions, PreflightProgress

SEARCHED = 20
"""How many earlier results are searched for an interrupted one."""


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
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the interrupted one: its finished checks are not asked again.")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the checks: what each proves and cannot see.")] = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Prove that a serve answers as it should: template, tools, JSON, context, streams. Exit 1 if a check fails."""
    from stoker_lab.artifacts import result_file
    from stoker_lab.commands.interruptible import as_typed
    from stoker_lab.commands.save_run import save_run
    from stoker_lab.lock import hold_measurement_lock
    from stoker_lab.preflight.run import PreflightOptions, chosen_checks, recorded_numbers

    names = tuple(name.strip() for name in (only or "").split(",") if name.strip())
    try:
        chosen_checks(names)
    except ValueError as error:
        raise UsageError(f"--only: {error}") from error
    if list_:
        _list(json)
        return
    name = options.measured_name(serve, tier)
    found = _found(name, base_url, model, key_env, config, state)
    earlier = (
        recorded_numbers(result_file.load(result_file.find(baseline, found.results))) if baseline is not None else {}
    )
    wanted = PreflightOptions(only=names, needle_ctx=needle_ctx, wording=wording, baseline=earlier)
    given = {"--config": config, "--state": state, "--base-url": base_url, "--model": model, "--key-env": key_env,
             "--needle-ctx": needle_ctx, "--only": only, "--wording": wording, "--baseline": baseline}  # fmt: skip
    again = f"{as_typed('eval preflight', [name or found.serve] if base_url is None else [], given)} --resume"
    with hold_measurement_lock(found.results.parent, found.slot or found.serve, f"a preflight of {found.serve}"):
        interrupted = interrupted_run(found, wanted, again, resume)
        run = measure(found, wanted, interrupted)
    if json:
        import msgspec

        terminal.emit(msgspec.json.decode(msgspec.json.encode(run)))
    else:
        show(run)
    terminal.note(f"saved: {save_run(run, found.results.parent)}")  # after it was shown: a full disk loses nothing
    if run.outcome.value == "interrupted":
        terminal.note(f"interrupted: {count_finished(run)} are kept; to go on: {again}")
        raise typer.Exit(FAILED if _has_died(run) else INTERRUPTED)
    if run.outcome.value != "passed":
        raise typer.Exit(FAILED)


def count_finished(run: Run) -> str:
    from stoker_lab.preflight.resuming import finished

    return f"{len(finished(run))} of {counted(len(run.findings), 'check')}"


def _has_died(run: Run) -> bool:
    """Whether the server ended it, and nobody's Ctrl-C."""
    from stoker_lab.preflight.run import GONE

    return any(one.outcome.value == "interrupted" and one.observed.startswith(GONE) for one in run.findings)


def _list(json: bool) -> None:
    from stoker_lab.preflight.table import CHECKS, DIALECTS

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
    from stoker_lab.commands import targets

    try:
        return targets.find_target(serve, base_url, model, key_env, False, config, state)
    except NotRunning as error:
        raise UsageError(error.message, code=error.code) from error


def interrupted_run(found: MeasurementTarget, wanted: PreflightOptions, again: str, resume: bool) -> Run | None:
    """The interrupted preflight that goes on, which is said; None: from the beginning. `again`: the command with
    --resume."""
    from stoker.domain.run import Outcome, RunKind
    from stoker.store.results import Results
    from stoker_lab.preflight.resuming import change_since, unknown_parts
    from stoker_lab.preflight.run import recorded_options

    subject, options = found.subject(found.servers[0].route), recorded_options(wanted)
    store = Results(found.results.parent)
    store.sync()
    said = f"there is no interrupted preflight of {found.serve}"
    for entry in store.select(RunKind.PREFLIGHT, found.serve, limit=SEARCHED):
        run = store.load(entry.id)
        change = change_since(run, subject, options)
        if entry.outcome is not Outcome.INTERRUPTED:
            if change:
                continue
            break  # it was measured whole since
        when = f"{run.id} ({figures.moment(run.at)})"
        if change:
            said = f"nothing of {when} counts: {change}"
            continue
        if not resume:
            terminal.note(f"stoker: {count_finished(run)} of an interrupted preflight are kept; to go on: {again}")
            return None
        unknown = ", ".join(unknown_parts(subject))
        terminal.note(f"{count_finished(run)} are taken from {when}"
                      + (f"; not known whether the model is the same: {unknown}" if unknown else ""))  # fmt: skip
        return run
    if resume:
        terminal.note(f"stoker: {said}: all checks are asked")
    return None


def measure(found: MeasurementTarget, wanted: PreflightOptions, earlier: Run | None = None) -> Run:
    """What is finished is kept as it comes. Ctrl-C ends it early, `interrupted`. `earlier`: the run that goes on.

    Raises UsageError for a wording that there is not.
    """
    from stoker.cli.console.progress import ProgressLine
    from stoker_lab.artifacts import result_file
    from stoker_lab.commands.interruptible import run_interruptible
    from stoker_lab.commands.save_run import keeper
    from stoker_lab.commands.this_machine import facts
    from stoker_lab.preflight import run as measured

    server, machine = found.servers[0], result_file.raws(facts())
    keep = keeper(found.results.parent)

    def on_finding(run: Run) -> None:
        run.machine = machine
        keep(run)

    def on_progress(step: PreflightProgress) -> None:
        if step.finding is None:
            line.show(f"{step.at + 1} of {step.of}: {step.check}", step.at / step.of, None)

    try:
        with ProgressLine() as line:
            line.show(f"asking {found.serve} about itself", 0.0, None)
            work = measured.run_preflight(found.subject(server.route), server.target, wanted, on_progress, on_finding,
                                          earlier)  # fmt: skip
            run = run_interruptible(work)
    except ValueError as error:
        raise UsageError(f"--wording: {error}") from error
    run.machine = machine
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
