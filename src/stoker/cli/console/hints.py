"""What to type instead of a command that people know from other programs, or of an option that does not exist."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, MutableMapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

from stoker.extensions import missing_because

_INSTEAD = {
    "status": "stoker serves status",
    "ps": "stoker serves status",
    "list": "stoker serves status",
    "ls": "stoker serves status",
    "models": "stoker serves status",
    "logs": "stoker serves logs NAME",
    "log": "stoker serves logs NAME",
    "start": "stoker up, or, for one model, stoker serves up NAME",
    "serve": "stoker up, or, for one model, stoker serves up NAME",
    "server": "stoker up",
    "restart": "stoker up --replace",
    "stop": "stoker serves down NAME; Ctrl-C or the service manager ends Stoker itself",
    "load": "stoker serves up NAME",
    "unload": "stoker serves down NAME",
    "swap": "stoker slot switch NAME",
    "pull": "stoker add MODEL, or, for the vault alone, stoker stage SOURCE",
    "download": "stoker add MODEL, or, for the vault alone, stoker stage SOURCE",
    "rm": "stoker remove NAME",
    "chat": "stoker client NAME, for a client's settings; stoker client curl, for a first question",
    "ask": "stoker client curl, for a question in the shell",
    "check": "stoker config check",
    "bench": "stoker eval benchmark SERVE",
    "help": "stoker --help",
}

_INSTEAD_IN = {
    "serves": {
        "list": "stoker serves status",
        "ls": "stoker serves status",
        "ps": "stoker serves status",
        "log": "stoker serves logs NAME",
        "start": "stoker serves up NAME",
        "load": "stoker serves up NAME",
        "stop": "stoker serves down NAME",
        "unload": "stoker serves down NAME",
        "restart": "stoker serves down NAME, then stoker serves up NAME",
        "show": "stoker serves status, or, for its settings, stoker config show",
        "switch": "stoker slot switch NAME",
    },
    "orchestrator": {"run": 'stoker run "PROMPT"'},
    "eval": {"gate": "stoker gate SERVE --for ALIAS"},
    "keys": {
        "add": "stoker keys create NAME",
        "new": "stoker keys create NAME",
        "revoke": "stoker keys disable NAME, or, for good, stoker keys delete NAME",
        "remove": "stoker keys delete NAME",
        "rm": "stoker keys delete NAME",
        "limit": "stoker keys set NAME --requests-per-minute 60",
        "edit": "stoker keys set NAME --set SETTING=VALUE",
        "usage": "stoker usage --key NAME",
    },
    "config": {"effective": "stoker config show", "print": "stoker config show", "validate": "stoker config check"},
}
"""In a group of commands, by its name."""


SHIPPED = {
    "auto": ("promote", "route", "profile"),
    "edge": ("route-sync",),
    "import": ("import",),
    "lab": ("eval", "gate", "results"),
    "orchestrator": ("run", "orchestrator"),
    "ray": ("cluster",),
    "setup": ("init", "add", "remove", "doctor", "docs", "fit", "stage", "client", "launch", "install"),
    "tools": ("tools",),
}
"""The commands of the extensions that come with Stoker: one that is typed where its extension is missing says so."""


class CommandsWithHints(TyperGroup):
    """A group of commands. An unknown one is answered with the command that does what was probably meant."""

    instead: Mapping[str, str] = {}
    """By a word that people type: what a group of an extension has for it."""

    def take(self, commands: MutableMapping[str, Any]) -> None:
        """Has these commands from now on."""
        self.commands = commands

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args and self.get_command(ctx, args[0]) is None:
            instead = self._instead(ctx, args[0])  # imports every command
            if instead is not None:
                ctx.fail(f"No such command '{args[0]}'. Use: {instead}")
        if args and ctx.parent is None and self.get_command(ctx, args[0]) is None:
            for extension, commands in SHIPPED.items():
                if args[0] in commands:
                    text = f"No such command '{args[0]}': it needs the extension {extension}"
                    ctx.fail(f"{text}, {missing_because(extension)}.")
        return super().resolve_command(ctx, args)

    def _instead(self, ctx: Any, name: str) -> str | None:
        """What people usually mean by it; else every command of this name, wherever it is."""
        if ctx.parent is None:
            return _INSTEAD.get(name) or _commands_called(name, self)
        root = ctx.find_root().command
        if name in self.instead:
            return self.instead[name]
        return _INSTEAD_IN.get(ctx.info_name, {}).get(name) or _commands_called(name, root) or _INSTEAD.get(name)


def _commands_called(name: str, root: TyperGroup) -> str | None:
    """None: there is none."""
    whole = [f"stoker {name}"] if name in root.commands else []
    groups = [group for group, one in root.commands.items() if isinstance(one, TyperGroup) and name in one.commands]
    return ", ".join(whole + [f"stoker {group} {name}" for group in groups]) or None


class CommandWithSettings(TyperCommand):
    """A command with `--set SETTING=VALUE`. A setting that has no option of its own is answered with that form, and
    `--expires`, which only a new key takes, with how to make one.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from stoker.domain.key import SETTING_NAMES

        options = {option for parameter in self.params for option in (*parameter.opts, *parameter.secondary_opts)}
        given = args[: args.index("--")] if "--" in args else args
        for place, word in enumerate(given):
            option, equals, value = word.partition("=")
            if option == "--expires" and option not in options:
                text = "A key's end is set when it is made: stoker keys create NAME --expires 90d"
                ctx.fail(f"No such option: --expires. {text}")
            setting = option.removeprefix("--").replace("-", "_")
            if option.startswith("--") and option not in options and setting in SETTING_NAMES:
                following = given[place + 1 : place + 2]
                shown = value if equals else next((text for text in following if not text.startswith("-")), "VALUE")
                ctx.fail(f"No such option: {option}. Use: --set {shlex.quote(f'{setting}={shown}')}")
        return super().parse_args(ctx, args)
