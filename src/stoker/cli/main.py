"""The command line: Stoker's own commands and those of its extensions, and the one place where an error becomes an exit
code. A command is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import cache
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from stoker.cli.commands.version import print_version
from stoker.cli.console import terminal
from stoker.cli.console.errors import FAILED, USAGE, exit_code
from stoker.cli.console.hints import CommandsWithHints
from stoker.domain.errors import ConfigError, StokerError
from stoker.extensions import FAILURES, Command, load, usable_extensions

COMMANDS = (
    Command("up", "stoker.cli.commands.up:up", "Run the server and its models. Ctrl-C stops both."),
    Command("top", "stoker.cli.commands.top:top", "Watch slots, serves, memory, requests and events."),
    Command("usage", "stoker.cli.commands.usage:usage", "Show requests, tokens, cost and accelerator time."),
    Command("decisions", "stoker.cli.commands.decisions:decisions", "List the newest requests and their outcomes."),
    Command("explain", "stoker.cli.commands.decisions:explain", "Explain one request: where it went, and why."),
    Command("watchdog", "stoker.cli.commands.watchdog:watchdog", "Show the health of each serve."),
    Command("completions", "stoker.cli.commands.completions:completions", "Print the completion script for SHELL."),
    Command("reload", "stoker.cli.commands.reload:reload", "Read the configuration again, and apply all or nothing."),
    Command("pause", "stoker.cli.commands.pause:pause", "End what is loaded, and load nothing until `stoker resume`."),
    Command("resume", "stoker.cli.commands.pause:resume", "End what `stoker pause` began: models come back."),
    Command("version", "stoker.cli.commands.version:version", "Print the version; -v: and the extensions."),
    Command("serves", "stoker.cli.commands.serves:app", "Serves: the model servers of the configuration."),
    Command("slot", "stoker.cli.commands.slot:app", "Slots: devices, and the serves that share them."),
    Command("keys", "stoker.cli.commands.keys:app", "Make, limit, disable and rotate the keys of callers."),
    Command("config", "stoker.cli.commands.config:app", "The configuration file, stoker.toml."),
)


class CommandNotLoaded(StokerError):
    """A command of an extension cannot be imported."""


class _Commands(MutableMapping[str, Any]):
    """Each command as Typer makes it, when it is first asked for."""

    def __init__(self, table: Mapping[str, Command], made: Mapping[str, Any] | None = None) -> None:
        self.table = dict(table)
        """By name, those that are made when they are asked for. A command in a group has two words."""
        self._made = dict(made or {})
        self._names = [*self._made, *(name for name in self.table if " " not in name)]

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            parts = {words: one for words, one in self.table.items() if words.startswith(f"{name} ")}
            self._made[name] = _make(self.table[name], {words.split()[1]: one for words, one in parts.items()})
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("commands are named in stoker.cli.main or by an extension")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are named in stoker.cli.main or by an extension")

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class RootCommands(CommandsWithHints):
    """All commands. Help and completion say their summaries, and import none of them."""

    commands: _Commands

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands(_all_commands())

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        summaries = self._summaries(ctx)
        summaries.command.format_commands(summaries, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        summaries = self._summaries(ctx)
        completions: list[Any] = summaries.command.shell_complete(summaries, incomplete)
        return completions

    def _summaries(self, ctx: Any) -> Any:
        """This group with commands that have nothing but their summaries."""
        commands = [
            TyperCommand(name, help=command.summary)
            for name, command in self.commands.table.items()
            if name in self.commands
        ]
        group = TyperGroup(name=self.name, params=self.params, commands=commands, rich_markup_mode=None)
        return typer.Context(group, parent=ctx.parent, info_name=ctx.info_name)


def run(arguments: list[str]) -> int:
    """Run one command line; the exit code: 0 done, 1 refused or failed, 2 usage."""
    try:
        command_tree()(arguments, prog_name="stoker")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else FAILED
    except StokerError as error:
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        if "--json" in own:
            terminal.emit({"error": {"message": error.message, "code": error.code}})
        for line in error.problems if isinstance(error, ConfigError) else [error.message]:
            terminal.note(f"stoker: {line}")
        return exit_code(error)
    return 0


@cache
def command_tree() -> Any:
    """`stoker` with all its commands, and its own options. Plain help and plain tracebacks: rich costs 40 ms, which
    `stoker --help` does not have.
    """
    app = typer.Typer(
        name="stoker",
        cls=RootCommands,
        help="One stable endpoint for the language models that you run yourself.",
        epilog="Start with: stoker up --demo, or stoker init. Every command: docs/reference/cli.md",
        no_args_is_help=True,
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    root: Any = typer.main.get_command(app)
    for option in root.params:  # Typer's own scripts cut names at `:`, and do nothing at the first key press in zsh
        if option.name in ("install_completion", "show_completion"):
            option.callback = _completion(option.name)
    return root


def _completion(name: str) -> Callable[..., None]:
    def act(context: typer.Context, option: object, is_given: bool) -> None:
        if is_given:
            load(f"stoker.cli.commands.completions:{name}")(context, option, is_given)

    return act


def _root(
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


def _all_commands() -> dict[str, Command]:
    """By name. Of two with one name, Stoker's own counts, then that of the first extension by name."""
    commands = {command.name: command for command in COMMANDS}
    for extension in usable_extensions():
        for command in extension.commands:
            commands.setdefault(command.name, command)
    return commands


def _make(command: Command, parts: Mapping[str, Command]) -> Any:
    """`parts`: what extensions add to the group that it is."""
    try:
        loaded = load(command.place)
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.callback()(lambda: None)
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=command.name.split()[-1])
        else:
            app.command(command.name.split()[-1])(loaded)
        (made,) = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    except FAILURES as error:
        if command in COMMANDS:
            raise
        return _unusable(command, error)
    if parts and isinstance(made, CommandsWithHints):
        own = {name: part for name, part in parts.items() if name not in made.commands}
        made.take(_Commands(own, made.commands))
    return made


def _unusable(command: Command, error: BaseException) -> Any:
    text = f"the command {command.name} cannot be loaded ({type(error).__name__}: {error})"

    def refuse(**_: Any) -> None:
        raise CommandNotLoaded(f"{text}; what is installed: stoker --version -v") from error

    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    return TyperCommand(command.name, callback=refuse, help=text, context_settings=anything)
