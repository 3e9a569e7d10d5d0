"""`stoker profile`: what was measured of the tiers, by class. Works when nothing runs, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.domain.tier import ProfileRow
    from stoker.store.profile import Rows
    from stoker_auto.quality.demotions_file import DemotionTable

app = typer.Typer(cls=CommandsWithHints, help="The quality profile: show, diff, import, export.", no_args_is_help=True)
options.accept_config(app)
_File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A profile, as `stoker profile export` writes it.",
        autocompletion=options.profile_files,
    ),
]


@app.command()
def show(config: options.Config = None, state: options.State = None, json: options.Json = False) -> None:
    """Show the measurement and verdict of each tier at each class, and the grades of live answers."""
    from stoker_auto.commands.live_grades import live_rows, uncounted_grades
    from stoker_auto.decide.demotion import describe_demotion
    from stoker_lab.statistics.stats import wilson

    installation = find_installation(config, state)
    rows, live = _own(installation), live_rows(installation)
    demoted, stale, uncounted = _demoted(installation, rows), _stale(installation), uncounted_grades(installation, live)
    keys = sorted(rows.keys() | live.keys())
    if json:
        terminal.emit(
            [
                _beside(key, rows.get(key), live.get(key))
                | ({"live_problem": uncounted[key]} if key in uncounted else {})
                | _of_demotion(key, demoted)
                | _of_age(key, stale)
                for key in keys
            ]
        )
        return
    if not keys:
        terminal.say(
            "nothing is measured yet; answers of local tiers are verified, and local tiers get no high-risk classes"
        )
        terminal.note(f"measure them: stoker eval bootstrap{installation.place}")
        return
    columns = ("TIER", "CLASS", "VERDICT", "PASSED", "RATE AT LEAST", "LATENCY", "SOURCE", "AT", "LIVE")

    def cells(key: tuple[str, str]) -> tuple[str, ...]:
        row, graded = rows.get(key), _word(live[key]) if key in live else "-"
        graded = f"{graded} (not counted)" if key in uncounted else graded
        if row is None:
            return (*key, "not measured", "-", "-", "-", "-", "-", graded)
        verdict = f"{row.verdict.value} (stale)" if stale and key in stale else row.verdict.value
        return (
            *key, verdict, f"{row.passed} of {row.n}", f"{wilson(row.passed, row.n).low:.2f}",
            _seconds(row.latency), row.source, figures.moment(row.at) if row.at else "-", graded,
        )  # fmt: skip

    terminal.table(columns, [cells(key) for key in keys], right=("PASSED", "RATE AT LEAST", "LATENCY"))
    for one in demoted.values():
        terminal.say(f"{one.tier} at {one.task_class}: {describe_demotion(one.checks)}")
    for (tier, name), why in uncounted.items():
        terminal.say(f"{tier} at {name}: its live grades do not count: {why}")
    for (tier, name), why in (stale or {}).items():
        terminal.say(f"{tier} at {name}: {why}")
    if stale:
        terminal.note(f"measure stale rows again: stoker eval calibrate{installation.place}")
    elif stale is None:
        terminal.note("only a running Stoker knows which rows are stale; start it: " + installation.start)


@app.command()
def diff(
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="The profile to compare with. Default: the one before the last change.",
            autocompletion=options.profile_files,
            show_default=False,
        ),
    ] = None,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Show verdicts that are new, gone or different. Exit 1 if there are any."""
    from stoker.store.profile import ProfileFile, load

    installation = find_installation(config, state)
    if other is None:
        history = ProfileFile(_path(installation)).history()
        if not history:
            give = f"stoker profile diff FILE{installation.place}"
            raise UsageError(f"there is no earlier profile to compare with; give one: {give}")
        other = history[-1]
    before, now = load(other, _WRITTEN), _own(installation)
    changes = [
        {"tier": tier, "class": name, "before": _word(before.get((tier, name))), "now": _word(now.get((tier, name)))}
        for tier, name in sorted(before.keys() | now.keys())
        if before.get((tier, name)) != now.get((tier, name))
    ]
    if json:
        terminal.emit(changes)
    elif changes:
        terminal.table(("TIER", "CLASS", "BEFORE", "NOW"), [tuple(one.values()) for one in changes])
    else:
        terminal.say("nothing changed")
    if changes:
        raise typer.Exit(FAILED)


@app.command()
def export(
    to: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="File to write. Default: standard output.")
    ] = None,
    config: options.Config = None,
    state: options.State = None,
) -> None:
    """Write the profile that routing uses."""
    from stoker.store.profile import encode

    body = encode(_own(find_installation(config, state)).values())
    if to is None:
        terminal.say(body.decode().rstrip())
        return
    try:
        to.write_bytes(body)
    except OSError as error:
        raise UsageError(f"{to} cannot be written: {error.strerror}") from error


@app.command("import")
def import_(
    file: _File,
    replace: Annotated[bool, typer.Option("--replace", help="Also drop every row that is not in FILE.")] = False,
    config: options.Config = None,
    state: options.State = None,
) -> None:
    """Add the rows of FILE to the profile; they replace rows for the same tier and class. The old profile is kept."""
    from stoker.store.profile import ProfileFile, load

    installation = find_installation(config, state)
    rows = load(file, _WRITTEN)
    kept: Rows = {} if replace else _own(installation)
    try:
        ProfileFile(_path(installation)).write({**kept, **rows}.values())
    except OSError as error:
        raise UsageError(f"{_path(installation)} cannot be written: {error.strerror}") from error
    terminal.say(f"{counted(len(rows), 'row')} imported into {_path(installation)}")
    terminal.note(f"use them for routing: stoker reload{installation.place}")


_WRITTEN = "give a file that `stoker profile export` wrote"


def _own(installation: Installation) -> Rows:
    """Empty if there is no file yet. Raises ConfigError for an invalid one."""
    from stoker.store.profile import load

    path = _path(installation)
    return load(path) if path.exists() else {}


def _demoted(installation: Installation, rows: Rows) -> DemotionTable:
    """Not measured again since. Whether a serve is another one by now, only a running Stoker knows."""
    from stoker_auto.decide.demotion import holds
    from stoker_auto.quality.demotions_file import Demotions, path_of

    return {
        key: one
        for key, one in Demotions(path_of(installation.state)).read().items()
        if holds(one, rows.get(key), None)
    }


def _stale(installation: Installation) -> dict[tuple[str, str], str] | None:
    """Why rows count no longer, as the running Stoker sees its models; None: none runs."""
    from stoker.cli.console.errors import NotRunning

    try:
        with installation.control() as control:
            routing = control.document("/status").get("routing") or {}
    except NotRunning:
        return None
    return {(one["tier"], one["class"]): one["why"] for one in routing.get("stale", [])}


def _of_age(key: tuple[str, str], stale: dict[tuple[str, str], str] | None) -> dict[str, object]:
    """`stale`: why the row no longer counts; empty if it does; null if Stoker does not run."""
    return {"stale": None if stale is None else stale.get(key, "")}


def _of_demotion(key: tuple[str, str], demoted: DemotionTable) -> dict[str, object]:
    found = demoted.get(key)
    return {} if found is None else {"demoted": list(found.checks)}


def _path(installation: Installation) -> Path:
    from stoker.store.profile import path_of

    router = installation.configured().router
    if router is None:
        raise UsageError("no [[tier]] is configured, so there is no profile; add a tier first")
    return path_of(router, installation.state)


def _beside(key: tuple[str, str], row: ProfileRow | None, live: ProfileRow | None) -> dict[str, object]:
    """A row with the live grades beside it. Of what no suite measured the figures are null."""
    import msgspec

    from stoker.domain.tier import ProfileRow

    found: dict[str, object] = dict.fromkeys(ProfileRow.__struct_fields__) if row is None else msgspec.to_builtins(row)
    found["tier"], found["task_class"] = key
    return {**found, "live": None if live is None else msgspec.to_builtins(live)}


def _word(row: ProfileRow | None) -> str:
    return "not measured" if row is None else f"{row.verdict.value}, {row.passed} of {row.n}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else figures.seconds(value)
