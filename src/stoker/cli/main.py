"""The tree of all commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from stoker.cli import command_line
from stoker.cli.commands import (
    client,
    cluster,
    completions,
    config,
    decisions,
    docs,
    doctor,
    eval,
    fit,
    gate,
    import_config,
    init,
    install,
    keys,
    orchestrator,
    profile,
    promote,
    route,
    route_sync,
    serves,
    slot,
    stage,
    top,
    up,
    usage,
    watchdog,
)
from stoker.cli.commands import run as run_command
from stoker.cli.commands.up_start import Start
from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED
from stoker.cli.console.installation import find_running
from stoker.cli.evaluate import results

app = command_line.without_commands()
app.command()(up.up)
for group in (serves, slot, cluster, keys, orchestrator, eval, results, profile, config):
    options.accept_config(group.app)
app.add_typer(serves.app, name="serves")
app.add_typer(slot.app, name="slot")
app.add_typer(cluster.app, name="cluster")
app.command()(gate.gate)
app.command()(promote.promote)
app.command()(top.top)
app.command()(route.route)
app.command()(route_sync.route_sync)
app.add_typer(keys.app, name="keys")
app.command()(usage.usage)
app.command()(decisions.decisions)
app.command()(decisions.explain)
app.command()(run_command.run)
app.add_typer(orchestrator.app, name="orchestrator")
app.command()(watchdog.watchdog)
app.command()(init.init)
app.add_typer(import_config.app, name="import")
app.command()(doctor.doctor)
app.command()(docs.docs)
app.command()(fit.fit)
app.command()(stage.stage)
app.command()(client.client)
app.add_typer(eval.app, name="eval")
app.add_typer(results.app, name="results")
app.add_typer(profile.app, name="profile")
app.add_typer(config.app, name="config")
app.add_typer(install.app, name="install")
app.command()(completions.completions)


_RELOADED = ("changed", "added", "removed", "routing", "settings", "lapsed", "ended", "problems", "warnings")


@app.command()
def reload(
    config: options.Config = None,
    state: options.State = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    json: options.Json = False,
) -> None:
    """Read the configuration again, and apply all of it or nothing.

    Serves that did not change keep running, with their requests.
    """
    with find_running(config, state).control() as control:
        answer = control.reload(dry_run)
    if json:
        terminal.emit({name: getattr(answer, name) for name in _RELOADED})
    else:
        lines = [f"{word}: {', '.join(getattr(answer, word))}" for word in ("changed", "added", "removed")
                if getattr(answer, word)]  # fmt: skip
        if answer.routing:
            lines.append("routing: changed")
        whole = {f"serve[{name}]" for name in (*answer.added, *answer.removed)}
        lines += [f"setting: {path}" for path in answer.settings if path not in whole]
        for line in lines:
            terminal.say(line)
        if not lines and not answer.problems:
            terminal.say("nothing would change" if dry_run else "nothing changed")
        for tier in dict.fromkeys(one["tier"] for one in answer.lapsed):
            classes = ", ".join(one["class"] for one in answer.lapsed if one["tier"] == tier)
            terminal.note(
                f"stoker: tier {tier} may have changed since it was measured at {classes}; "
                f"measure it again: stoker eval calibrate {tier}"
            )
        for warning in answer.warnings:
            terminal.note(f"warning: {warning}")
        for one in answer.ended:
            terminal.note(f"stoker: {_ended(one, dry_run)}")
        for problem in answer.problems:
            terminal.note(f"stoker: {problem}")
    if answer.problems:
        raise typer.Exit(FAILED)


def _ended(one: dict[str, str], dry_run: bool) -> str:
    text = f"the promotion of {one['alias']} to {one['serve']} {'would end' if dry_run else 'has ended'}"
    if not one["now"]:
        return f"{text}, because it is no longer configured"
    points = "would point" if dry_run else "points"
    return f"{text}, because {one['serve']} is no longer configured: {one['alias']} {points} to {one['now']}"


@app.command()
def version(json: options.Json = False) -> None:
    """Print the version."""
    command_line.print_version(json)


def run(arguments: list[str], begin: Callable[[Start], int] = Start.run) -> int:
    """See `command_line.run`."""
    return command_line.run(_command(), arguments, begin)


@cache
def _command() -> Callable[..., Any]:
    """The tree as Typer builds it: 40 ms, so once for each process."""
    return typer.main.get_command(app)
