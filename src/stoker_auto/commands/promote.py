"""`stoker promote`: an alias moves to another serve, on evidence, and is looked after."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED, UsageError
from stoker.cli.console.installation import find_installation

if TYPE_CHECKING:
    from stoker.cli.console.control import Control

POLL_INTERVAL = 0.5
"""Seconds between two polls of a watched promotion."""


def promote(
    alias: Annotated[
        str | None,
        typer.Argument(metavar="[ALIAS]", help="The alias. Default: show all.", autocompletion=options.alias_names),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Argument(
            metavar="[SERVE]", help="The serve that the alias will point to.", autocompletion=options.serve_names
        ),
    ] = None,
    evidence: Annotated[
        str | None, typer.Option("--evidence", metavar="ID", help="A gate's result. Default: the newest of SERVE.")
    ] = None,
    reset: Annotated[bool, typer.Option("--reset", help="Reset the alias to the serve in the configuration.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Promote without evidence; give a --reason.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; recorded with the promotion.")] = "",
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until the promotion is no longer watched; exit 1 if it was rolled back."),
    ] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Move ALIAS to SERVE: at once for new requests, on the evidence of a gate, watched and taken back if it fails."""
    installation = find_installation(config, state)
    with installation.control() as control:
        if alias is None:
            _show(control, json)
            return
        if reset:
            answer = control.reset(alias)
        elif serve is None:
            raise UsageError(_missing_serve(control, alias, installation.place))
        else:
            found = evidence or newest(installation.state, serve)
            answer = control.promote(alias, serve, found, reason, force)
    done = f"{alias} points to {answer['serve']} now; before, it pointed to {answer['previous']}"
    if wait and not reset:
        with installation.control() as control:
            answer["kept"] = _wait(control, alias, str(answer["serve"]), installation.place, quiet=json)
        done = (
            f"{alias} points to {answer['serve']}"
            if answer["kept"]
            else f"{alias} points to {answer['previous']} again"
        )
    if json:
        terminal.emit(answer)
    else:
        terminal.say(done)
        if not reset and not wait and answer.get("watch"):
            terminal.note(
                f"watched for {answer['watch']:g} s; undo it: stoker promote {alias} --reset{installation.place}"
            )
    if answer.get("kept") is False:
        raise typer.Exit(FAILED)


def newest(state: Path, serve: str) -> str:
    """Id of the newest gate result of a serve; empty if there is none."""
    from stoker.domain.run import RunKind
    from stoker.store.results import Results

    store = Results(state)
    store.sync()
    return next((entry.id for entry in store.select(RunKind.GATE, serve, limit=1)), "")


def _show(control: Control, json: bool) -> None:
    aliases: list[dict[str, Any]] = control.document("/status").get("aliases", [])
    if json:
        terminal.emit(aliases)
        return
    if not aliases:
        terminal.say("there are no aliases; add one to the configuration: [alias.NAME]")
        return
    rows = [
        (
            one["alias"], _meaning(one), one["gate"] or "-",
            _time(one["promoted_at"]),
            one["evidence"] or one["reason"] or "-",
            "-" if one["watched_for"] is None else f"{one['watched_for']:.0f} s",
        )
        for one in aliases
    ]  # fmt: skip
    terminal.table(("ALIAS", "MEANS", "GATE", "SINCE", "BY", "WATCHED FOR"), rows)


def _meaning(one: dict[str, Any]) -> str:
    """The serve; of an alias for several also these, and how one is picked."""
    if not one.get("serves"):
        return str(one["serve"])
    return f"{one['serve'] or '-'} ({one['pick']} of {', '.join(one['serves'])})"


def _time(at: float | None) -> str:
    return "as configured" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _missing_serve(control: Control, alias: str, place: str) -> str:
    """What to type; to undo a promotion, only where there is one."""
    aliases = control.document("/status").get("aliases", [])
    is_promoted = any(one["alias"] == alias and one["promoted_at"] is not None for one in aliases)
    text = f"a serve is missing: type stoker promote {alias} SERVE{place}"
    return text + (f"; or, to undo its promotion: stoker promote {alias} --reset{place}" if is_promoted else "")


def _wait(control: Control, alias: str, serve: str, place: str, quiet: bool) -> bool:
    """Wait until the promotion is no longer watched; whether the alias still points to `serve`."""
    while True:
        found = next((one for one in control.document("/status").get("aliases", []) if one["alias"] == alias), None)
        if found is None or found["serve"] != serve:
            if not quiet:
                terminal.note(f"{alias} was rolled back; see why: stoker results list --kind promotion{place}")
            return False
        if found["watched_for"] is None:
            return True
        time.sleep(POLL_INTERVAL)
