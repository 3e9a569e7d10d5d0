"""`stoker import ollama|lmstudio|hf|llama.cpp`: serves for the models that other programs own, where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options
from stoker.cli.console.errors import UsageError
from stoker.domain.host_port import host_port
from stoker_import import command_output
from stoker_import.command_output import ImportOptions

if TYPE_CHECKING:
    from stoker.cli.machine.serve_plan import MachineInventory
    from stoker_import.imported import ImportedConfig, KeyReport
    from stoker_import.owned_models import EngineModel, Progress

Link = Annotated[
    bool,
    typer.Option(
        "--link", help="Hard-link the files into the vault: they stay when the other program removes its own."
    ),
]
_OLLAMA_ADDRESS = "http://127.0.0.1:11434"
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Port that Stoker listens on.")]


def ollama_names(incomplete: str) -> list[str]:
    """Names of Ollama's models that begin with `incomplete`. Reads names only: a key press must not wait."""
    from stoker_import.ollama import list_names
    from stoker_import.ollama_store import UnreadableStore, find_stores

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
    link: Link = False,
    path: command_output.Target = command_output.DEFAULT_TARGET,
    check: command_output.Check = False,
    partial: command_output.Partial = False,
    force: command_output.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Serve the models that Ollama downloaded, where they are. Nothing is copied; Ollama's files stay unchanged."""
    from stoker_import import ollama as importer
    from stoker_import.ollama_engine import find_engine
    from stoker_import.ollama_store import find_stores, unit_environment

    how = ImportOptions(path, check, partial, force, json)
    command_output.check_target(how)
    environment = unit_environment() | dict(os.environ)
    server = ollama_address(environment) if through_ollama else None
    if server is not None and server.endswith(f":{port}"):
        raise UsageError(f"Ollama keeps port {port}, because of --through-ollama: give Stoker another one with --port")
    stores = [store] if store is not None else find_stores(os.environ, Path.home())
    if not stores:
        raise UsageError("no Ollama models were found: give their directory with --store, or set OLLAMA_MODELS")
    machine = take_stock()
    engine = find_engine(environment, machine.gpus[0].vendor if machine.gpus else "")
    source = importer.OllamaSource(stores, environment, engine, server)
    front_door = {"host": "127.0.0.1", "port": port}
    imported = with_progress(
        json, lambda progress: importer.import_ollama(source, machine, front_door, models or (), progress)
    )
    finish(imported, how, link)


def lmstudio(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", help="Folder with the models. Default: LM Studio's own.", show_default=False
        ),
    ] = None,
    port: Port = 8000,
    link: Link = False,
    path: command_output.Target = command_output.DEFAULT_TARGET,
    check: command_output.Check = False,
    partial: command_output.Partial = False,
    force: command_output.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Serve the models that LM Studio downloaded, where they are, with the settings that it keeps for each."""
    from stoker_import import lmstudio as importer
    from stoker_import.model_folders import import_folders

    how = ImportOptions(path, check, partial, force, json)
    command_output.check_target(how)
    home = Path.home()
    folders = [folder] if folder is not None else importer.find_folders(home)
    if not folders or not all(one.is_dir() for one in folders):
        raise UsageError("no LM Studio models were found: give their folder, such as ~/.lmstudio/models")
    read = [importer.read_folder(one, importer.find_homes(home)) for one in folders]
    found = [model for models, _ in read for model in models]
    report = [row for _, rows in read for row in rows]
    comments = ("From LM Studio's models, which stay where they are.",)
    imported = with_progress(
        json,
        lambda progress: import_folders(
            found, (), report, take_stock(), {"host": "127.0.0.1", "port": port}, comments, progress
        ),
    )
    finish(imported, how, link)


def hf(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[HUB]",
            help="The hub's cache. Default: $HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub.",
            show_default=False,
        ),
    ] = None,
    port: Port = 8000,
    link: Link = False,
    path: command_output.Target = command_output.DEFAULT_TARGET,
    check: command_output.Check = False,
    partial: command_output.Partial = False,
    force: command_output.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Serve the models in the caches of the Hugging Face hub and of llama.cpp, where they are."""
    from stoker_import import hf_cache
    from stoker_import.model_folders import import_folders

    how = ImportOptions(path, check, partial, force, json)
    command_output.check_target(how)
    hub = folder if folder is not None else hf_cache.find_hub(os.environ, Path.home())
    cache = hf_cache.find_llama_cache(os.environ, Path.home())
    if not hub.is_dir() and (folder is not None or not cache.is_dir()):
        raise UsageError(f"there is no cache of the hub at {hub}: give its directory, or set HF_HUB_CACHE")
    ggufs, others, report = hf_cache.read_hub(hub)
    more, rows = hf_cache.read_llama_cache(cache) if folder is None else ([], [])
    comments = ("From the caches of the Hugging Face hub and llama.cpp; the files stay where they are.",)
    imported = with_progress(
        json,
        lambda progress: import_folders(
            [*ggufs, *more],
            others,
            [*report, *rows],
            take_stock(),
            {"host": "127.0.0.1", "port": port},
            comments,
            progress,
        ),
    )
    finish(imported, how, link)


def llama_cpp(
    source: Annotated[
        Path, typer.Argument(metavar="FILE|FOLDER", help="File of --models-preset, or folder of --models-dir.")
    ],
    cwd: Annotated[
        Path | None,
        typer.Option(
            "--cwd",
            metavar="DIR",
            help="Directory in which llama-server runs: relative paths begin there. Default: the file's directory.",
            show_default=False,
        ),
    ] = None,
    models_dir: Annotated[
        Path | None,
        typer.Option(
            "--models-dir",
            metavar="DIR",
            help="The router's folder of models beside its FILE, if it has both.",
            show_default=False,
        ),
    ] = None,
    port: Port = 8000,
    link: Link = False,
    path: command_output.Target = command_output.DEFAULT_TARGET,
    check: command_output.Check = False,
    partial: command_output.Partial = False,
    force: command_output.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Serve the models of llama.cpp's router: its presets (models.ini), or its folder of models."""
    from stoker_import import hf_cache, llama_presets
    from stoker_import.model_folders import import_folders

    how = ImportOptions(path, check, partial, force, json)
    command_output.check_target(how)
    rows: list[KeyReport] = []
    remote: list[EngineModel] = []
    if models_dir is not None and (source.is_dir() or not models_dir.is_dir()):
        raise UsageError(f"--models-dir {models_dir}: give a folder, beside the file of --models-preset")
    if source.is_dir():
        found = llama_presets.read_models_dir(source)
    else:
        text = _read_source(source)
        sections = llama_presets.parse_presets(text, str(source))
        local = llama_presets.read_models_dir(models_dir) if models_dir is not None else []
        sections |= {model.name: {} for model in local if model.name not in sections}
        cached = [
            *local,
            *hf_cache.read_hub(hf_cache.find_hub(os.environ, Path.home()))[0],
            *hf_cache.read_llama_cache(hf_cache.find_llama_cache(os.environ, Path.home()))[0],
        ]
        base = (cwd if cwd is not None else source.parent).absolute()
        found, remote, rows = llama_presets.read_presets(sections, base, cached)
        if not sections.keys() - {"", llama_presets.EVERY_MODEL}:
            raise UsageError(
                f"{source} has no section of a model: name the router's folder of models with --models-dir"
            )
    comments = (f"From llama.cpp's router, {source}.",)
    imported = with_progress(
        json,
        lambda progress: import_folders(
            found, (), rows, take_stock(), {"host": "127.0.0.1", "port": port}, comments, progress, remote
        ),
    )
    finish(imported, how, link)


def _read_source(source: Path) -> str:
    try:
        return source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{source} is not a text file: give the file of --models-preset") from None
    except OSError as error:
        raise UsageError(f"{source} cannot be read ({error.strerror}): correct the path") from error


def finish(imported: ImportedConfig, how: ImportOptions, link: bool) -> None:
    """Report and write the result, with links in the vault if they are wanted."""
    from stoker.config.paths import default_vault
    from stoker_import.vault_links import link_into_vault

    command_output.finish(link_into_vault(imported, default_vault()) if link else imported, how)


def ollama_address(environment: dict[str, str]) -> str:
    """Where Ollama answers: `OLLAMA_HOST`, in any of the forms that Ollama takes."""
    given = environment.get("OLLAMA_HOST", "").strip()
    if not given:
        return _OLLAMA_ADDRESS
    scheme, _, rest = given.rpartition("://")
    host, _, port = rest.rstrip("/").rpartition(":") if ":" in rest else (rest.rstrip("/"), "", "11434")
    host = "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host
    return f"{scheme or 'http'}://{host_port(host, port or '11434')}"


def take_stock() -> MachineInventory:
    """GPUs and engines of this machine, without its models."""
    from stoker.cli.machine import discover
    from stoker.cli.machine.serve_plan import MachineInventory
    from stoker.config.paths import default_vault

    return MachineInventory(discover.gpus(), (), discover.engines(), default_vault())


def with_progress(quiet: bool, work: Callable[[Progress], ImportedConfig]) -> ImportedConfig:
    """Do `work` with a line on stderr that says which model is read, on a terminal."""
    from stoker.cli.console import terminal
    from stoker.cli.console.progress import ProgressLine

    if quiet or not terminal.is_live(stderr=True):
        return work(lambda what, share: None)
    with ProgressLine() as line:
        return work(lambda what, share: line.show(f"reading {what}", share, None))
