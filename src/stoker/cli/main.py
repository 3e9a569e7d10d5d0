"""The tree of commands, and the one place where an error becomes an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from stoker import __version__
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
from stoker.cli.console.errors import FAILED, exit_code
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import find_installation
from stoker.cli.evaluate import results
from stoker.domain.build import IS_COMPILED, describe_version
from stoker.domain.errors import ConfigError, StokerError

# Plain help and plain tracebacks: rich costs 40 ms, which `stoker --help` does not have.
app = typer.Typer(
    name="stoker",
    cls=CommandsWithHints,
    help="One stable endpoint for the language models that you run yourself.",
    epilog="Start with: stoker up --demo, or stoker init. Every command: docs/reference/cli.md",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(up.up)
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


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def root(
    version_: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before a command; --version works by its callback."""


_RELOADED = ("changed", "added", "removed", "routing", "settings", "lapsed", "problems")


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
    with find_installation(config, state).control() as control:
        answer = control.reload(dry_run)
    if json:
        terminal.emit({name: getattr(answer, name) for name in _RELOADED})
    else:
        lines = [f"{word}: {', '.join(getattr(answer, word))}" for word in ("changed", "added", "removed")
                if getattr(answer, word)]  # fmt: skip
        if answer.routing:
            lines.append("routing: changed")
        lines += [f"setting: {path}" for path in answer.settings]
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
        for problem in answer.problems:
            terminal.note(f"stoker: {problem}")
    if answer.problems:
        raise typer.Exit(FAILED)


@app.command()
def version(json: options.Json = False) -> None:
    """Print the version."""
    if json:
        python = ".".join(str(n) for n in sys.version_info[:3])
        terminal.emit({"version": __version__, "compiled": IS_COMPILED, "python": python, "platform": sys.platform})
    else:
        terminal.say(f"stoker {describe_version()}")


def run(arguments: list[str], begin: Callable[[Start], int] = Start.run) -> int:
    """Run one command line; the exit code: 0 done, 1 refused or failed, 2 usage. `begin` is called with what `up` found
    to be started; it returns the exit code.
    """
    try:
        _command()(arguments, prog_name="stoker", obj=begin)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else FAILED
    except StokerError as error:
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        return report(error, as_json="--json" in own)
    return 0


@cache
def _command() -> Callable[..., Any]:
    """The tree as Typer builds it: 40 ms, so once for each process."""
    return typer.main.get_command(app)


def report(error: StokerError, as_json: bool = False) -> int:
    """Say it, and return the exit code."""
    if as_json:
        terminal.emit({"error": {"message": error.message, "code": error.code}})
    for line in error.problems if isinstance(error, ConfigError) else [error.message]:
        terminal.note(f"stoker: {line}")
    return exit_code(error)
