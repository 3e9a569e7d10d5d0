"""`stoker remove NAME`: a serve leaves the configuration, and its weights the vault if that is wanted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, RequestRefused, unknown_serve
from stoker.domain.errors import ConfigError

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.serve import Serve
    from stoker_setup.config_edit import ConfigEdit
    from stoker_setup.config_file import ConfigFile
    from stoker_setup.vault import VaultModel


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a serve.", autocompletion=options.serve_names)],
    weights: Annotated[
        bool, typer.Option("--weights", help="Also remove its model from the vault. Files elsewhere stay.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove weights that other serves use, without asking.")
    ] = False,
    config: options.Config = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, and change nothing.")] = False,
    json: options.Json = False,
) -> None:
    """Take a serve out of stoker.toml, with the comments that touch it, and reload. Undoes `stoker add`."""
    from stoker.config.find import find
    from stoker.config.load import load_text
    from stoker_setup import vault
    from stoker_setup.config_edit import remove_serve
    from stoker_setup.config_file import ConfigFile

    file = ConfigFile(find(config))
    settings = load_text(file.text, file.path, needs_secrets=False)
    serve = next((one for one in settings.serves if one.name == name), None)
    if serve is None:
        raise unknown_serve(name, (one.name for one in settings.serves), str(file.path))
    edit = remove_serve(file.text, name)
    try:
        after = file.check(edit)
    except ConfigError as error:
        text = f"{file.path} would not be valid without '{name}': change these places first"
        raise ConfigError([text, *error.problems]) from error
    model = _model(serve, settings) if weights else None
    others = vault.users(model, after.serves) if model is not None else []
    size = model.size if model is not None else 0
    if model is not None and others and not dry_run:
        _may_go(model, others, force, json)
    if not dry_run:
        is_running = _carry_out(file, edit, model, settings)
        done = ", and Stoker has reloaded it" if is_running else ""
    if json:
        terminal.emit(_document(serve, file, edit, model, size, others, dry_run))
        return
    if dry_run:
        terminal.say(edit.diff(str(file.path)))
    else:
        terminal.say(f"{name} is no longer in {file.path}{done}")
    if model is not None:
        used = f", which {', '.join(others)} also use" if others else ""
        verb = "would be" if dry_run else "is"
        terminal.say(f"vault:{model.name} {verb} removed, {figures.size(size)}{used}")
    elif serve.model:
        _say_weights(serve, settings, weights, options.same_place(config, None))


def _model(serve: Serve, settings: Settings) -> VaultModel | None:
    """What of the vault is its model; None: it lies elsewhere, or is not there."""
    from stoker_setup import vault

    root = settings.paths.vault
    where = os.path.relpath(serve.model, root) if os.path.isabs(serve.model) else os.pardir
    return None if where.startswith(os.pardir) else vault.find(Path(root), where)


def _may_go(model: VaultModel, others: list[str], force: bool, json: bool) -> None:
    """Raises RequestRefused where nobody can be asked, and typer.Exit for a no."""
    if force:
        return
    text = f"vault:{model.name} is used by {', '.join(others)} as well"
    if json or not sys.stdin.isatty():
        raise RequestRefused(f"{text}: leave out --weights, or add --force (their next start fails)", code="in_use")
    if not typer.confirm(f"{text}, whose next start would fail. Remove it?", default=False):
        raise typer.Exit(FAILED)


def _carry_out(file: ConfigFile, edit: ConfigEdit, model: VaultModel | None, settings: Settings) -> bool:
    """The weights go last: when the engine has ended."""
    from stoker_setup import vault
    from stoker_setup.commands.reload_after import reload_after

    file.write(edit)
    is_running = reload_after(file, edit)
    if model is not None:
        vault.remove(Path(settings.paths.vault), model)
    return is_running


def _say_weights(serve: Serve, settings: Settings, weights: bool, place: str) -> None:
    model = _model(serve, settings)
    if model is not None:
        terminal.say(f"its weights stay, {figures.size(model.size)}; to remove them: "
                     f"stoker stage --remove {model.name}{place}")  # fmt: skip
    elif weights:
        terminal.say(f"{serve.model} is not in the vault, and stays")


def _document(
    serve: Serve,
    file: ConfigFile,
    edit: ConfigEdit,
    model: VaultModel | None,
    size: int,
    others: list[str],
    dry_run: bool,
) -> dict[str, Any]:
    return {
        "name": serve.name, "config": str(file.path.absolute()), "removed": not dry_run,
        "weights": None if model is None else {"model": f"vault:{model.name}", "bytes": size, "used_by": others},
        "diff": edit.diff(str(file.path)),
    }  # fmt: skip
