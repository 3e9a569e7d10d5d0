"""`stoker gate`: may this serve be what an alias means? Measure what is missing, then judge condition by condition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli import figures, options, terminal
from stoker.cli.failure import FAILED, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stoker.cli.evaluate.known import Known
    from stoker.domain.access import Settings
    from stoker.domain.gate import Gate
    from stoker.domain.run import Kind, Run

_OWN_TIME = {"soak": ("eval soak", " --for 8h"), "context": ("eval context", "")}
"""Measurements that take hours, or the slot: not begun by the way. With the command for each, and its options."""


def gate(
    serve: options.ServeName,
    alias: Annotated[str | None, typer.Option("--for", metavar="ALIAS", help="By the gate of this alias.")] = None,
    name: Annotated[
        str | None, typer.Option("--gate", metavar="NAME", help="This gate. Default: the only one there is.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure again what could be measured.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Judge what is there; measure and keep nothing.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """May SERVE be what ALIAS means? Runs what is missing, says it per condition. Exit 0 only if all of them hold."""
    from stoker.cli.evaluate import kept, known
    from stoker.domain.run import Kind, Outcome
    from stoker.measure import gate as judged
    from stoker.measure.canary import Refusal
    from stoker.measure.lock import sole

    if again and dry_run:
        raise UsageError("--again measures, --dry-run does not: give one of them")
    found = known.find(serve, config, state)
    asked = _gate(found.place.settings, alias, name)
    began = time.time()
    told: dict[Kind, str] = {}
    runs = [] if again else _usable(found, asked, began)
    for kind in judged.missing(asked, runs) if not dry_run else ():
        if kind.value in _OWN_TIME:
            told[kind] = _own_time("measure it first", kind, found)
            continue
        terminal.note(f"{kind.value} of {serve}: measured now")
        try:
            with sole(found.state, found.lock, f"a gate of {serve}"):
                runs.append(_measured(kind, found, json))
        except (UsageError, Refusal) as error:
            told[kind] = error.message
    findings = judged.judge(asked, runs)
    for condition, finding in zip(asked.conditions, findings, strict=True):
        if finding.outcome is Outcome.UNDECIDED:
            kind = judged.kind_of(condition)
            finding.fix = told.get(kind) or _own_time("measure it again", kind, found)
    outcome = judged.outcome_of(findings)
    settings: dict[str, object] = {
        "gate": asked.name, "alias": alias, "conditions": [one.text for one in asked.conditions],
        "runs": [run.id for run in runs],
    }  # fmt: skip
    run = kept.made(Kind.GATE, found.subject, began, outcome, findings, {}, settings, None)
    if json:
        terminal.emit(kept.document(run))
    else:
        _show(run, asked)
    if not dry_run:
        terminal.note(f"kept: {kept.keep(run, found.state)}")
    if outcome is not Outcome.PASSED:
        raise typer.Exit(FAILED)
    if alias is not None and not json and not dry_run:
        terminal.note(f"now: stoker promote {alias} {serve} --evidence {run.id}")


def _gate(settings: Settings | None, alias: str | None, name: str | None) -> Gate:
    """Raises UsageError that says what there is."""
    gates = {one.name: one for one in settings.gates} if settings is not None else {}
    if alias is not None:
        aliases = {one.name: one for one in settings.aliases} if settings is not None else {}
        if alias not in aliases:
            raise UsageError(f"there is no alias '{alias}'; {_there_are(aliases, 'alias')}", code="unknown_alias")
        if name is None and (name := aliases[alias].gate) is None:
            raise UsageError(f"alias '{alias}' has no `gate`: give it one, or use --gate NAME", code="no_gate")
    if name is None:
        if len(gates) != 1:
            raise UsageError(f"which gate? --for ALIAS or --gate NAME; {_there_are(gates, 'gate')}")
        (name,) = gates
    if name not in gates:
        raise UsageError(f"there is no gate '{name}'; {_there_are(gates, 'gate')}", code="unknown_gate")
    return gates[name]


def _there_are(names: Iterable[str], what: str) -> str:
    known = ", ".join(names)
    return f"there are {known}" if known else f"[{what}.NAME] in the configuration makes one"


def _usable(found: Known, gate: Gate, now: float) -> list[Run]:
    """The newest measurement of each kind, of just this serve as it is now."""
    from stoker.measure import gate as judged
    from stoker.store.results import Results

    store = Results(found.state)
    for sentence in store.sync():
        terminal.note(f"stoker: {sentence}")
    mark = found.subject.fingerprint
    runs = []
    for kind in dict.fromkeys(map(judged.kind_of, gate.conditions)):
        entries = (one for one in store.select(kind, found.serve.name, limit=1000) if not one.is_baseline)
        same = (store.load(one.id) for one in entries if judged.may_be_of(kind, one.identity, one.execution, mark))
        runs += judged.usable(same, found.serve.name, mark, gate.max_age, now)[:1]
    return runs


def _own_time(what: str, kind: Kind, found: Known) -> str:
    """What to do and the command; empty for what the gate measures by itself."""
    from stoker.cli.evaluate.known import typed

    if kind.value not in _OWN_TIME:
        return ""
    command, given = _OWN_TIME[kind.value]
    return f"{what}: {typed(command, found.serve.name, found.place)}{given}"


def _measured(kind: Kind, found: Known, json: bool) -> Run:
    """Raises UsageError with the command that helps."""
    from stoker.cli.evaluate import benchmark, canary, kept, preflight, subject

    if kind.value == "canary":
        from stoker.measure.canary_set import questions

        return canary.compared(found, questions(found.subject.fingerprint.parts.get("model", "")), None, False)
    ways = subject.ways(found)
    if kind.value == "preflight":
        from stoker.measure.preflight import Options, chosen

        with preflight.live_line(len(chosen(())), json) as tell:
            run = preflight.measure(ways, Options(), tell)
        if not json:
            preflight.show(run)
    else:
        from stoker.cli.evaluate import shown
        from stoker.measure import presets

        wanted = presets.Wanted(concurrency=(1, 4), quick=True)
        plan, size = presets.plan(wanted, ways.context), presets.sizes(wanted, ways.context)
        (run,) = benchmark.measure(ways, wanted, plan, size, quiet=json)
        if not json:
            shown.show([run])
    kept.keep(run, found.state)
    return run


def _show(run: Run, gate: Gate) -> None:
    rows = [(one.name, one.outcome.value, one.seen) for one in run.findings]
    terminal.say("")
    terminal.table(("CONDITION", "OUTCOME", "SEEN"), rows)
    for one in run.findings:
        if one.fix:
            terminal.say(f"\n{one.name}: {one.fix}")
    held = sum(one.outcome.value == "passed" for one in run.findings)
    count = len(run.findings)
    took = figures.seconds(run.seconds)
    terminal.say(f"\n{run.subject.serve}: {run.outcome.value} gate {gate.name}, {held} of {count} conditions, {took}")
