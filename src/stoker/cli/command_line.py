"""A command line of whatever commands, and the one place where an error becomes an exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from stoker.cli.commands.up_start import Start
from stoker.cli.commands.version import print_version
from stoker.cli.console import terminal
from stoker.cli.console.errors import FAILED, USAGE, exit_code
from stoker.cli.console.hints import CommandsWithHints
from stoker.domain.errors import ConfigError, StokerError


def without_commands(group: type[TyperGroup] = CommandsWithHints) -> typer.Typer:
    """`stoker` and its own options. Plain help and plain tracebacks: rich costs 40 ms, which `stoker --help` does not
    have.
    """
    app = typer.Typer(
        name="stoker",
        cls=group,
        help="One stable endpoint for the language models that you run yourself.",
        epilog="Start with: stoker up --demo, or stoker init. Every command: docs/reference/cli.md",
        no_args_is_help=True,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(root)
    return app


def root(
    context: typer.Context,
    version_: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With --version: also the extensions.")] = False,
) -> None:
    if version_:
        print_version(verbose=verbose)
        raise typer.Exit
    if context.invoked_subcommand is None:
        terminal.say(context.get_help())
        raise typer.Exit(USAGE)


def run(command: Callable[..., Any], arguments: list[str], begin: Callable[[Start], int]) -> int:
    """Run one command line; the exit code: 0 done, 1 refused or failed, 2 usage. `begin` is called with what `up` found
    to be started; it returns the exit code.
    """
    try:
        command(arguments, prog_name="stoker", obj=begin)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else FAILED
    except StokerError as error:
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        return report(error, as_json="--json" in own)
    return 0


def report(error: StokerError, as_json: bool = False) -> int:
    """Say it, and return the exit code."""
    if as_json:
        terminal.emit({"error": {"message": error.message, "code": error.code}})
    for line in error.problems if isinstance(error, ConfigError) else [error.message]:
        terminal.note(f"stoker: {line}")
    return exit_code(error)
