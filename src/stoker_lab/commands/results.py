"""`stoker results`: what was measured, found again. Works when nothing runs, too."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import RequestRefused, UsageError
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import find_installation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.domain.run import Number, Run
    from stoker.store.results import ResultEntry, Results
    from stoker_lab.comparison.runs import ComparedNumber, RunComparison
    from stoker_lab.statistics.stats import Interval

_E = TypeVar("_E", bound=StrEnum)
app = typer.Typer(cls=CommandsWithHints, help="Results of measurements: list, show, compare.", no_args_is_help=True)
options.accept_config(app)


def result_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Ids that begin with `incomplete`, newest first. Reads names of files only: a key press must not wait."""
    directory = _state_at_a_glance(context) / "results"
    return sorted((path.stem for path in directory.glob(f"{incomplete}*.json")), reverse=True)[:100]


def _state_at_a_glance(context: typer.Context) -> Path:
    import tomllib

    from stoker.config.paths import config_places, default_state

    if context.params.get("state"):
        return Path(context.params["state"]).expanduser()
    given = context.params.get("config") or os.environ.get("STOKER_CONFIG")
    for place in [Path(given).expanduser()] if given else config_places():
        try:
            named = tomllib.loads(place.read_text(encoding="utf-8")).get("paths", {}).get("state")
        except (OSError, ValueError, AttributeError):
            continue  # a broken or missing file must not print into the user's command line
        return place.parent / Path(named).expanduser() if isinstance(named, str) else default_state()
    return default_state()


_Id = Annotated[
    str | None, typer.Argument(metavar="ID", help="A result, or how its id begins.", autocompletion=result_ids)
]


@app.command("list")
def list_(
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="Only this kind: canary, soak, benchmark...")
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option("--serve", metavar="SERVE", help="Only of this serve.", autocompletion=options.serve_names),
    ] = None,
    outcome: Annotated[
        str | None,
        typer.Option("--outcome", metavar="WORD", help="Only results with this outcome: passed, failed, undecided..."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help='Only of the last so long ("24h"), or since a date.')
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many of the newest.")] = 20,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """What was measured, newest first."""
    from stoker.domain.run import Outcome, RunKind

    store = _store(config, state)
    wanted = _one_of(RunKind, kind, "--kind"), _one_of(Outcome, outcome, "--outcome")
    found = store.select(wanted[0], serve, _moment(since), wanted[1], limit=limit)
    if json:
        terminal.emit([entry._asdict() for entry in found])
        return
    if not found:
        is_filtered, place = any((kind, serve, outcome, since)), options.same_place(config, state)
        others = f"no results like these; all of them: stoker results list{place}"
        terminal.say(others if is_filtered else f"no results; `stoker eval canary SERVE --record{place}` makes one")
        return
    columns = ("ID", "AT", "KIND", "SERVE", "OUTCOME", "TOOK", "FINDINGS", "FAILED", "BASELINE")
    terminal.table(columns, [_row(entry) for entry in found], right=("TOOK", "FINDINGS", "FAILED"))


def _row(entry: ResultEntry) -> tuple[str, ...]:
    return (
        entry.id,
        figures.moment(entry.at),
        entry.kind,
        entry.serve,
        entry.outcome,
        figures.seconds(entry.seconds),
        str(entry.findings),
        str(entry.failed),
        "yes" if entry.is_baseline else "",
    )


@app.command()
def show(
    run_id: _Id = None, config: options.Config = None, state: options.State = None, json: options.Json = False
) -> None:
    """One result: who was measured, what was found, the numbers. With --json the whole file."""
    if run_id is None:
        place = options.same_place(config, state)
        raise UsageError(f"which result? give its id; to list the newest: stoker results list{place}")
    run = _one(_store(config, state), run_id, options.same_place(config, state))
    if json:
        import msgspec

        terminal.emit(msgspec.json.decode(msgspec.json.encode(run)))
        return
    show_run(run)


def show_run(run: Run) -> None:
    subject = run.subject
    terminal.say(f"{run.id}: {run.outcome}")
    terminal.say(f"{run.kind} of {subject.serve}, {figures.moment(run.at)}, took {figures.seconds(run.seconds)}")
    terminal.say(f"asked {subject.base_url} for '{subject.model}' ({subject.dialect}, {subject.route})")
    if subject.fingerprint.parts:
        terminal.say("\nfingerprint")
        for name, value in subject.fingerprint.parts.items():
            terminal.say(f"  {name:<24} {value}")
    if run.findings:
        terminal.say()
        terminal.table(("FINDING", "OUTCOME", "SEEN"), [(f.name, f.outcome, f.observed) for f in run.findings])
        for finding in run.findings:
            if finding.cause or finding.fix:
                terminal.say(f"\n{finding.name}: {finding.cause}" + (f"\n  {finding.fix}" if finding.fix else ""))
    if run.numbers:
        terminal.say("\nnumbers")
        for name, number in run.numbers.items():
            terminal.say(f"  {name:<24} {_figure(number)}")


@app.command()
def compare(
    before: _Id = None,
    after: Annotated[str | None, typer.Argument(metavar="ID", help="The other one.", autocompletion=result_ids)] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every number, not only the twelve that matter.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Two results of one kind side by side: the twelve numbers that matter, with units, ratio and spreads. What else
    differs is named."""
    from stoker_lab.comparison import runs

    place = options.same_place(config, state)
    if before is None or after is None:
        which = "which results? give the ids of two of one kind"
        raise UsageError(f"{which}; to list the newest: stoker results list{place}")
    store = _store(config, state)
    first, second = _one(store, before, place), _one(store, after, place)
    if first.kind is not second.kind:
        kinds = f"{first.id} is a {first.kind} and {second.id} a {second.kind}"
        raise UsageError(f"{kinds}: name two results of the same kind")
    if json:
        terminal.emit(runs.comparison_document(first, second))
        return
    found = runs.compare_runs(first, second)
    _side_by_side(first, second, place, found, found.rows if all_ else runs.most_important(found.rows, first.kind))


def _side_by_side(first: Run, second: Run, place: str, found: RunComparison, rows: Sequence[ComparedNumber]) -> None:
    terminal.say(f"before  {first.id}: {first.outcome}\nafter   {second.id}: {second.outcome}\n")
    if found.fingerprint_difference.identity:
        terminal.note("these are two different models: a difference is not a regression")
    for word, lines in zip(("identity", "not known", "execution"), found.fingerprint_difference, strict=True):
        for line in lines:
            terminal.say(f"{word:<10} {line}")
    if any(found.fingerprint_difference):
        terminal.say()
    columns = ("NUMBER", "UNIT", "BEFORE", "AFTER", "DIFFERENCE", "RATIO", "SPREAD BEFORE", "SPREAD AFTER", "")
    terminal.table(columns, [_cells(row) for row in rows], right=columns[2:6])
    if left := len(found.rows) - len(rows):
        terminal.note(f"{left} more numbers: stoker results compare {first.id} {second.id} --all{place}")


def _cells(row: ComparedNumber) -> tuple[str, ...]:
    return (
        row.name,
        row.unit,
        _figure(row.before),
        _figure(row.after),
        _signed(row.difference),
        figures.UNKNOWN if row.ratio is None else f"{row.ratio:.2f}x",
        _spread(row.spread_before),
        _spread(row.spread_after),
        "apart" if row.spreads_are_apart else "",
    )


def _store(config: str | None, state: str | None) -> Results:
    from stoker.store.results import Results

    store = Results(find_installation(config, state).state)
    for problem in store.sync():
        terminal.note(f"stoker: {problem}; skipped")
    return store


def _one(store: Results, wanted: str, place: str) -> Run:
    found = store.find(wanted)
    if not found:
        raise RequestRefused(
            f"no result '{wanted}' in {store.directory}; to list the newest: stoker results list{place}",
            code="unknown_result",
            status=404,
        )
    if len(found) > 1:
        raise UsageError(f"'{wanted}' matches {len(found)} results: {', '.join(found[:5])}; give a full id")
    return store.load(found[0])


def _one_of(kind: type[_E], given: str | None, option: str) -> _E | None:
    if given is None:
        return None
    try:
        return kind(given)
    except ValueError:
        raise UsageError(f"{option} {given}: give one of {', '.join(kind)}") from None


def _moment(text: str | None) -> float | None:
    """Unix time of `24h` (ago) or of a date."""
    import datetime
    import time

    if text is None:
        return None
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return time.time() - (options.duration(text, "--since") or 0.0)


def _figure(number: Number) -> str:
    return figures.UNKNOWN if number is None else f"{number:,.4g}" if isinstance(number, float) else f"{number:,}"


def _signed(number: float | None) -> str:
    return figures.UNKNOWN if number is None else f"{number:+,.4g}"


def _spread(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:,.4g} to {interval.high:,.4g}"
