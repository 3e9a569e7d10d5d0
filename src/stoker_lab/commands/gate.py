"""`stoker gate`: may this serve be what an alias means? Measure what is missing, then judge condition by condition."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, UsageError

if TYPE_CHECKING:
    from stoker.domain.gate import Gate
    from stoker.domain.run import Finding, Run
    from stoker_lab.commands.gate_measurements import GateMeasurement


def gate(
    serve: options.ServeName,
    alias: Annotated[
        str | None,
        typer.Option("--for", metavar="ALIAS", help="Use the gate of this alias.", autocompletion=options.alias_names),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--gate", metavar="NAME", help="This gate. Default: the only one there is.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure again what could be measured.")] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with an interrupted preflight: its finished checks are not asked again."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Judge stored results; measure and store nothing.")
    ] = False,
    unknown_ok: Annotated[
        bool,
        typer.Option(
            "--unknown-ok",
            help="For serves that somebody else runs. An unknown identity counts as unchanged, so that earlier canary "
            "baselines, soaks and context searches count. A condition that this serve cannot answer is left out of the "
            "decision, not passed. The result names both.",
        ),
    ] = False,
    suites: Annotated[
        Path | None, typer.Option("--suites", metavar="DIR", help="Your own fixtures, for conditions of a class.")
    ] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """May SERVE be what ALIAS means? Runs what is missing, says it per condition. Exit 0 only if all of them hold."""
    from stoker.domain.run import Outcome, RunKind
    from stoker_lab.commands import gate_measurements, running_serve
    from stoker_lab.commands import save_run as kept
    from stoker_lab.gate import judgement

    if again and dry_run:
        raise UsageError("--again measures and --dry-run does not: give one of them")
    if resume and (again or dry_run):
        raise UsageError(
            f"--resume goes on with what is kept, and {'--again' if again else '--dry-run'} does not: give one of them"
        )
    found = running_serve.find_running(serve, config, state)
    judging = gate_measurements.gate_measurement(found, alias, name, suites, unknown_ok)
    asked = judging.gate
    began = time.time()
    runs = [] if again else gate_measurements.stored_runs(judging, began)
    fixes = {} if dry_run else gate_measurements.measure_missing(judging, runs, alias, json, again, resume)
    unknown = gate_measurements.unknown_conditions(judging, runs)
    findings = judgement.judge_gate(asked, runs, judging.classes, unknown if unknown_ok else ())
    for condition, finding in zip(asked.conditions, findings, strict=True):
        if finding.outcome is Outcome.UNDECIDED:
            finding.fix = gate_measurements.fix_for(judging, condition, fixes, unknown)
    outcome, proposed = judgement.outcome_of(findings), judging.proposals(alias)
    settings = _settings(judging, alias, runs, findings, unknown_ok) | {"proposed": list(proposed)}
    run = kept.build_run(RunKind.GATE, found.subject, began, outcome, findings, {}, settings, None)
    if json:
        terminal.emit(kept.run_document(run))
    else:
        _show(run, asked)
    for text, why in proposed.items():
        terminal.note(f'proposed for [gate.{asked.name}]: "{text}" ({why}; the gate does not have this condition)')
    if judging.unknown_identity and not dry_run:
        terminal.note(gate_measurements.identity_note(judging))
    if not dry_run:
        terminal.note(f"saved: {kept.save_run(run, found.state)}")
    if outcome is not Outcome.PASSED:
        raise typer.Exit(FAILED)
    if alias is not None and not json and not dry_run:
        terminal.note(f"now: stoker promote {alias} {serve} --evidence {run.id}{found.installation.place}")


def _settings(
    judging: GateMeasurement, alias: str | None, runs: list[Run], findings: list[Finding], unknown_ok: bool
) -> dict[str, object]:
    """What the result says of how it was judged."""
    gate = judging.gate
    return {
        "gate": gate.name, "alias": alias, "conditions": [one.text for one in gate.conditions],
        "max_age": gate.max_age,
        "runs": [run.id for run in runs], "unknown_ok": unknown_ok,
        "unknown_identity": judging.unknown_identity if unknown_ok else [],
        "set_aside": [one.name for one in findings if one.outcome.value == "not-applicable"],
    }  # fmt: skip


def _show(run: Run, gate: Gate) -> None:
    rows = [(one.name, one.outcome.value, one.observed) for one in run.findings]
    terminal.say("")
    terminal.table(("CONDITION", "OUTCOME", "SEEN"), rows)
    for one in run.findings:
        if one.fix:
            terminal.say(f"\n{one.name}: {one.fix}")
    passed = sum(one.outcome.value == "passed" for one in run.findings)
    ignored = sum(one.outcome.value == "not-applicable" for one in run.findings)
    count = f"{passed} of {len(run.findings)} conditions" + (f", {ignored} ignored" if ignored else "")
    took = figures.seconds(run.seconds)
    terminal.say(f"\n{run.subject.serve}: {run.outcome.value} gate {gate.name}, {count}, {took}")
