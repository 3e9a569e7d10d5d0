"""`stoker import ollama`: serves for the models that another program downloaded. They stay where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.commands import import_output
from stoker.cli.commands.import_output import ImportOptions
from stoker.cli.console import options
from stoker.cli.console.errors import UsageError

if TYPE_CHECKING:
    from stoker.cli.importers.imported import ImportedConfig
    from stoker.cli.importers.owned_models import Progress
    from stoker.cli.machine.serve_plan import MachineInventory

_OLLAMA_ADDRESS = "http://127.0.0.1:11434"
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Port that Stoker listens on.")]


def ollama_names(incomplete: str) -> list[str]:
    """Names of Ollama's models that begin with `incomplete`. Reads names only: a key press must not wait."""
    from stoker.cli.importers.ollama import list_names
    from stoker.cli.importers.ollama_store import UnreadableStore, find_stores

    try:
        names = list_names(find_stores(os.environ, Path.home()))
    except UnreadableStore:
        return []
    return [str(name) for name in names if str(name).startswith(incomplete)]


def ollama(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Models, as `ollama list` shows them. Default: all.",
            autocompletion=ollama_names,
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="DIR",
            help="Directory of Ollama's models. Default: $OLLAMA_MODELS, then Ollama's usual places.",
            show_default=False,
        ),
    ] = None,
    through_ollama: Annotated[
        bool,
        typer.Option(
            "--through-ollama",
            help="Send requests for models that only Ollama can load to Ollama, which keeps running.",
        ),
    ] = False,
    port: Port = 8000,
    path: import_output.Target = import_output.DEFAULT_TARGET,
    check: import_output.Check = False,
    partial: import_output.Partial = False,
    force: import_output.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Serve the models that Ollama downloaded, where they are. Nothing is copied; Ollama's files stay unchanged."""
    from stoker.cli.importers import ollama as importer
    from stoker.cli.importers.ollama_engine import find_engine
    from stoker.cli.importers.ollama_store import find_stores, unit_environment

    how = ImportOptions(path, check, partial, force, json)
    import_output.check_target(how)
    environment = unit_environment() | dict(os.environ)
    server = ollama_address(environment) if through_ollama else None
    if server is not None and server.endswith(f":{port}"):
        raise UsageError(f"Ollama keeps port {port}, because of --through-ollama: give Stoker another one with --port")
    stores = [store] if store is not None else find_stores(os.environ, Path.home())
    if not stores:
        raise UsageError("no models of Ollama's were found: give their directory with --store, or set OLLAMA_MODELS")
    machine = take_stock()
    engine = find_engine(environment, machine.gpus[0].vendor if machine.gpus else "")
    source = importer.OllamaSource(stores, environment, engine, server)
    front_door = {"host": "127.0.0.1", "port": port}
    imported = with_progress(
        json, lambda progress: importer.import_ollama(source, machine, front_door, models or (), progress)
    )
    import_output.finish(imported, how)


def ollama_address(environment: dict[str, str]) -> str:
    """Where Ollama answers: `OLLAMA_HOST`, in any of the forms that Ollama takes."""
    given = environment.get("OLLAMA_HOST", "").strip()
    if not given:
        return _OLLAMA_ADDRESS
    scheme, _, rest = given.rpartition("://")
    host, _, port = rest.rstrip("/").rpartition(":") if ":" in rest else (rest.rstrip("/"), "", "11434")
    host = "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host
    return f"{scheme or 'http'}://{host}:{port or '11434'}"


def take_stock() -> MachineInventory:
    """GPUs and engines of this machine, without its models."""
    from stoker.cli.machine import discover
    from stoker.cli.machine.serve_plan import MachineInventory
    from stoker.config.paths import default_vault

    return MachineInventory(discover.gpus(), (), discover.engines(), default_vault())


def with_progress(quiet: bool, work: Callable[[Progress], ImportedConfig]) -> ImportedConfig:
    """Do `work` with a line on stderr that says which model is read, on a terminal."""
    from stoker.cli.console import terminal
    from stoker.cli.evaluate.progress import ProgressLine

    with ProgressLine(quiet or not terminal.is_live(stderr=True)) as line:
        return work(lambda what, share: line.show(f"reading {what}", share, None))
