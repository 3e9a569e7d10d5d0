"""`stoker eval sweep`: the same serve with other settings, one after the other, and which of them is best."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, RequestRefused, UsageError
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.domain.run import Fingerprint, Run
    from stoker.domain.serve import Serve
    from stoker_lab.commands.own_engine import OwnEngine
    from stoker_lab.commands.sweep_variant import SweepLoad
    from stoker_lab.trials.sweep import Goal, Variant

_MAX_CLIENTS = 64
_SEEN = 80


def keys(incomplete: str) -> list[str]:
    from stoker_lab.trials.sweep import KEYS

    return [f"{key}=" for key in KEYS if key.startswith(incomplete)]


def sweep(
    serve: options.OneServe = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary", metavar="KEY=V,V,...", help="A setting and its values; repeatable.", autocompletion=keys
        ),
    ] = None,
    goal: Annotated[
        str, typer.Option("--goal", metavar="GOAL", help="What to optimise: throughput, ttft, decode, context.")
    ] = "throughput",
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, max=_MAX_CLIENTS, help="Clients at once, the same for all.")
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="Minimum time of each of the two steps.")] = 5.0,
    output_tokens: Annotated[int | None, typer.Option("--output-tokens", min=2, help="Length of one answer.")] = None,
    limit: Annotated[
        str, typer.Option("--limit", metavar="TIME", help="Time limit for measuring one variant.")
    ] = "10m",
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="FILE", help="Continue an interrupted sweep.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the variants, and start nothing.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Measure variants of a serve, each with its own engine: an outcome for each, and the best by a goal.

    Its slot is reserved meanwhile; what ran there is loaded again at the end. Ctrl-C keeps what was measured.
    """
    from stoker_lab.commands.context import serve_on_its_devices
    from stoker_lab.commands.own_engine import configured_fingerprint
    from stoker_lab.commands.sweep_variant import SweepLoad

    installation = find_installation(config, state)
    aim = _goal(goal)
    chosen = serve_on_its_devices(installation, installation.configured(), serve)
    fingerprint = configured_fingerprint(installation, chosen.name)
    run, rows = (
        _resumed(installation, resume, chosen, fingerprint, vary) if resume else _begun(chosen, fingerprint, vary)
    )
    clients = concurrency or _clients(run, chosen, rows)
    load = SweepLoad(clients, seconds, options.duration(limit, "--limit") or 600.0, output_tokens)
    if dry_run:
        _list(rows, json)
        return
    is_interrupted = _measure(installation, chosen, run, rows, load, aim)
    path = _save(run, rows, aim, load, installation.state)
    _show(run, rows, aim, json)
    terminal.note(f"saved: {path}")
    if is_interrupted:
        from stoker_lab.commands.running_serve import command_for

        again = command_for("eval sweep", chosen.name, installation)
        terminal.note(f"interrupted; to resume: {again} --resume {path}")
        raise typer.Exit(INTERRUPTED)
    if run.outcome.value != "passed":
        raise typer.Exit(FAILED)


def _measure(
    installation: Installation, serve: Serve, run: Run, rows: list[Variant], load: SweepLoad, goal: Goal
) -> bool:
    """In the serve's slot, which it takes over meanwhile. Returns whether it was interrupted."""
    from stoker_lab.commands import interruptible, slot_takeover
    from stoker_lab.commands.own_engine import OwnEngine
    from stoker_lab.lock import hold_measurement_lock

    engine = OwnEngine(serve, installation.logs / f"sweep-{serve.name}.log", 1)
    tenants = slot_takeover.slot_tenants(installation, serve)
    to_run = sum(not row.is_over for row in rows)
    expected = figures.seconds(to_run * (2 * load.seconds + 15))
    what = f"{counted(to_run, 'variant')} of {serve.name}, {counted(load.clients, 'client')}"
    terminal.note(f"{what}, about {expected}")
    if tenants is not None:
        terminal.note(tenants.announcement())
    with hold_measurement_lock(installation.state, serve.slot or serve.name, f"a sweep of {serve.name}"):
        _save(run, rows, goal, load, installation.state)
        try:
            with slot_takeover.take_over(installation, tenants):
                interruptible.run_interruptible(_variants(run, rows, serve, engine, load, goal, installation.state))
        except KeyboardInterrupt:
            return True
    return False


async def _variants(
    run: Run, rows: list[Variant], serve: Serve, engine: OwnEngine, load: SweepLoad, goal: Goal, state: Path
) -> None:
    """Measures each unfinished variant; its result is on disk before the next one begins."""
    from stoker_lab.commands import sweep_variant

    for number, row in enumerate(rows, 1):
        if row.is_over:
            continue
        terminal.note(f"{number} of {len(rows)}: {row.name}")
        await sweep_variant.measure_variant(row, serve, engine, load, run.subject)
        terminal.note(f"  {row.failure or row.outcome}: {row.observed}")
        _save(run, rows, goal, load, state)


def _goal(text: str) -> Goal:
    from stoker_lab.trials.sweep import Goal

    try:
        return Goal(text)
    except ValueError:
        raise UsageError(f"--goal {text}: unknown goal; known goals: {', '.join(Goal)}") from None


def _begun(serve: Serve, fingerprint: Fingerprint, vary: list[str] | None) -> tuple[Run, list[Variant]]:
    """Raises UsageError of a `--vary` that cannot be."""
    from stoker.domain.run import Outcome, RunKind, Subject
    from stoker_lab.commands.save_run import build_run
    from stoker_lab.trials import sweep

    try:
        varied = sweep.parse_variations(vary or [])
    except sweep.BadVariation as error:
        raise UsageError(str(error)) from error
    rows = sweep.variants(varied)
    subject = Subject(
        serve.name, serve.served_name or serve.name, "an engine of its own", "chat", "direct", fingerprint
    )
    run = build_run(RunKind.SWEEP, subject, time.time(), Outcome.INTERRUPTED, [], {}, {"vary": varied}, rows)
    return run, rows


def _resumed(
    installation: Installation, name: str, serve: Serve, fingerprint: Fingerprint, vary: list[str] | None
) -> tuple[Run, list[Variant]]:
    """Raises UsageError for a file that is not a sweep of this serve, RequestRefused if the serve has changed."""
    import msgspec

    from stoker_lab.artifacts import result_file
    from stoker_lab.artifacts.fingerprint import difference
    from stoker_lab.trials import sweep

    if vary:
        raise UsageError("--resume continues with the variants of its file: leave --vary out")
    run = result_file.load(result_file.find(name, result_file.results_of(installation.state)))
    if run.kind.value != "sweep" or run.subject.serve != serve.name:
        raise UsageError(f"{run.id} is a {run.kind.value} of {run.subject.serve}, not a sweep of {serve.name}")
    changed = difference(run.subject.fingerprint, fingerprint)
    if changed.identity or changed.execution:
        what = "; ".join(changed.identity + changed.execution)
        raise RequestRefused(f"'{serve.name}' changed since ({what}): start a new run without --resume", code="changed")
    return run, msgspec.json.decode(run.raw, type=list[sweep.Variant])


def _clients(run: Run, serve: Serve, rows: list[Variant]) -> int:
    """As before if a sweep is resumed; else as many as the widest variant serves at once."""
    before = run.setting("clients")
    if isinstance(before, int):
        return before
    return min(_MAX_CLIENTS, max(int(row.settings.get("parallel", serve.parallel)) for row in rows))


def _save(run: Run, rows: list[Variant], goal: Goal, load: SweepLoad, state: Path) -> Path:
    from stoker_lab.artifacts import result_file
    from stoker_lab.commands.save_run import save_run
    from stoker_lab.trials import sweep

    leader = sweep.best_variant(rows, goal)
    run.findings, run.outcome = sweep.findings(rows), sweep.outcome_of(rows)
    run.numbers = {} if leader is None else dict(leader.numbers)
    run.numbers |= {"variants": len(rows), "variants.failed": sum(row.outcome == "failed" for row in rows)}
    run.settings |= result_file.raws(
        {"goal": goal.value, "best": None if leader is None else leader.settings, "clients": load.clients,
         "seconds": load.seconds, "limit": load.limit}
    )  # fmt: skip
    run.seconds = round(time.time() - run.at, 3)
    run.raw = result_file.raw(rows)
    return save_run(run, state)


def _list(rows: list[Variant], json: bool) -> None:
    if json:
        terminal.emit([row.settings for row in rows])
        return
    for row in rows:
        terminal.say(row.name)
    terminal.say(f"\n{len(rows)} variants")


def _show(run: Run, rows: list[Variant], goal: Goal, json: bool) -> None:
    import msgspec

    from stoker_lab.commands.benchmark_tables import milliseconds, rate
    from stoker_lab.trials import sweep

    leader, aim = sweep.best_variant(rows, goal), sweep.GOAL_FIGURES[goal]
    if json:
        document = {"id": run.id, "serve": run.subject.serve, "goal": goal.value, "outcome": run.outcome.value,
                    "best": None if leader is None else leader.settings, "rows": msgspec.to_builtins(rows)}  # fmt: skip
        terminal.emit(document)
        return
    columns = ("VARIANT", "OUTCOME", "OUT TOK/S", "TTFT P50", "TOK/S EACH", "START", "SEEN")
    cells = [
        (row.name, row.failure or row.outcome, rate(row.numbers.get("output_rate")),
         milliseconds(row.numbers.get("ttft_p50")), rate(row.numbers.get("decode_rate")),
         _seconds(row), "" if row.outcome == "measured" else _short(row.observed))
        for row in rows
    ]  # fmt: skip
    terminal.table(columns, cells, right=columns[2:6])
    for row in rows:
        if row.fix:
            terminal.say(f"\n{row.name}: {row.fix}")
    if leader is None:
        terminal.say("\nno variant could be measured")
    else:
        terminal.say(f"\nbest by {goal.value} ({aim.description}): {leader.name}")


def _seconds(row: Variant) -> str:
    value = row.numbers.get("start_seconds")
    return figures.UNKNOWN if value is None else figures.seconds(float(value))


def _short(text: str) -> str:
    return text if len(text) <= _SEEN else f"{text[: _SEEN - 3]}..."
