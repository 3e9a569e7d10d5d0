"""`stoker config`: check it, show what the program would run by, print its schema."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import config_warnings, is_running, load_beside_running, load_settings
from stoker.cli.console.uncounted import uncounted_warnings
from stoker.cli.console.weights_warnings import weights_warnings
from stoker.domain.figures import counted

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.runtime_key import SettingsOverride
    from stoker.domain.serve import Serve

app = typer.Typer(cls=CommandsWithHints, help="The configuration file, stoker.toml.", no_args_is_help=True)
options.accept_config(app)


@app.command()
def check(config: options.Config = None, json: options.Json = False) -> None:
    """Report every problem with its line. Exit 2 if there is one."""
    from stoker.config.sections import sections_of
    from stoker.domain.errors import ConfigError

    try:
        settings, found = checked(config)
    except ConfigError as error:
        if json:
            terminal.emit({"ok": False, "problems": error.problems, "warnings": []})
            raise typer.Exit(2) from error
        raise
    if json:
        terminal.emit({"ok": True, "file": settings.source, "problems": [], "warnings": found})
        return
    for warning in found:
        terminal.note(f"warning: {warning}")
    serves = sum(not serve.from_tier for serve in settings.serves)
    counts = [counted(serves, "serve"), *([counted(len(settings.router.tiers), "tier")] if settings.router else ())]
    counts += [counted(len(tables), section.noun) for _, section, tables in sections_of(settings) if section.noun]
    said = counted(len(found), "warning") if found else "no problems"
    terminal.say(f"{settings.source}: {said}; {', '.join(counts)}")
    place = options.same_place(config, None)
    terminal.say(
        f"next: stoker reload{place}" if is_running(settings) else f"next: stoker up --config {settings.source}"
    )


def checked(config: str | None) -> tuple[Settings, list[str]]:
    """The settings, and what is allowed but probably not meant. Raises ConfigError with every problem."""
    from stoker.store.profile import configured_rows, unconfigured_rows

    settings, missing = load_beside_running(config)
    rows = configured_rows(settings.router, settings.paths.state)
    found = missing + config_warnings(settings) + uncounted_warnings(settings)
    found += weights_warnings(settings) + _outside_the_vault(settings)
    if settings.router is not None:
        found += unconfigured_rows(rows, [tier.name for tier in settings.router.tiers], settings.router.known)
    return settings, found


def _outside_the_vault(settings: Settings) -> list[str]:
    """Each path for which the start of a serve would be refused; once for all its replicas."""
    from stoker.app.configuration import placed_serves
    from stoker.engines.placement import placement_problems

    if not settings.paths.placement:
        return []
    serves = (dataclasses.replace(one, name=one.replica_of or one.name) for one in placed_serves(settings))
    return list(dict.fromkeys(text for one in serves for text in placement_problems(one, settings.paths.vault)))


@app.command()
def show(config: options.Config = None, json: options.Json = False) -> None:
    """Show the effective values, with defaults. Secrets are shown as their source."""
    from stoker.access.access_file import read_overrides
    from stoker.access.settings_input import show_settings
    from stoker.config import effective

    settings = load_settings(config, needs_secrets=False)
    overrides = read_overrides(Path(settings.paths.state) / "access.db")
    if json:
        shown = [{"kind": one.kind, "name": one.name, "settings": show_settings(one.settings),
                  "disabled": one.is_disabled, "reason": one.reason, "at": one.at} for one in overrides]  # fmt: skip
        chosen = [serve.name for serve in settings.serves if serve.auto_context]
        terminal.emit({**effective.show(settings), **({"overrides": shown} if shown else {}),
                       **({"auto_contexts": chosen} if chosen else {})})  # fmt: skip
        return
    terminal.say(effective.to_toml(settings).rstrip())
    for serve in settings.serves:
        if serve.auto_context:
            terminal.say(f"\n# serve '{serve.name}' has context = \"auto\": {_chosen(serve)}")
    for one in overrides:
        terminal.say(f"\n# changed while Stoker ran, at {figures.moment(one.at)}{_because(one.reason)}:")
        terminal.say(f"# {one.kind} '{one.name}': {_changes(one)}")
        name = f"--app {one.name}" if one.kind == "app" else one.name
        terminal.say(f"# undo it: stoker keys reset {name}{options.same_place(config, None)}")


@app.command()
def schema(
    json: Annotated[bool, typer.Option("--json", help="No effect: the output is always JSON.")] = False,
) -> None:
    """Print the JSON Schema, for editors."""
    from stoker.config.effective import schema

    terminal.emit(schema())


def _chosen(serve: Serve) -> str:
    if serve.context is None:
        return serve.context_problem or "chosen when it starts, because its weights are missing"
    tokens = f"{serve.context} tokens{f' for each of {serve.parallel} requests' if serve.parallel > 1 else ''}"
    return f"{tokens} are the most that fit and that its model was trained for"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _changes(override: SettingsOverride) -> str:
    from stoker.access.settings_input import show_settings

    found = [f"{name} = {value}" for name, value in show_settings(override.settings).items()]
    return ", ".join([*(["disabled"] if override.is_disabled else []), *found]) or "nothing"
