"""`stoker import llama-swap`: its configuration files as a stoker.toml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import options
from stoker.cli.console.errors import UsageError
from stoker_import import command_output
from stoker_import.command_output import DEFAULT_TARGET, ImportOptions

if TYPE_CHECKING:
    from stoker_import.llama_swap.sources import SourceFile

LARGEST = 4 << 20
"""Bytes of one file."""
_SUFFIXES = (".yaml", ".yml")


def yaml_files(incomplete: str) -> list[str]:
    """Completes the names of YAML files and directories."""
    folder, _, start = incomplete.rpartition("/")
    try:
        entries = sorted(Path(folder or ("/" if incomplete.startswith("/") else ".")).iterdir())
    except OSError:
        return []
    lead = f"{folder}/" if "/" in incomplete else ""
    return [
        f"{lead}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in entries
        if entry.name.startswith(start) and (entry.is_dir() or entry.suffix in _SUFFIXES)
    ]


def llama_swap(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE...]", help="llama-swap's configuration: config.yaml.", autocompletion=yaml_files,
            show_default=False,
        ),
    ] = None,
    config_dir: Annotated[
        Path | None,
        typer.Option("--config-dir", metavar="DIR", help="Also every .yaml and .yml file of this directory."),
    ] = None,
    cwd: Annotated[
        Path | None,
        typer.Option(
            "--cwd", metavar="DIR", help="Where llama-swap was started: relative paths refer to it. Default: here.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, show_default=False,
            help="Port that Stoker listens on. Default: llama-swap's, 8080, or the next that no model of the file has.",
        ),
    ] = None,
    path: command_output.Target = DEFAULT_TARGET,
    check: command_output.Check = False,
    partial: command_output.Partial = False,
    force: command_output.Overwrite = False,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Read llama-swap's configuration, write a stoker.toml, and report what became of every key.

    Variables like ${env.NAME} are read from this shell's environment. Models keep their names, aliases and parameters.
    """
    wanted = ImportOptions(path, check, partial, force, json)
    command_output.check_target(wanted)
    sources = [_read(file) for file in [*(files or ()), *_in_directory(config_dir, files or ())]]
    if not sources:
        raise UsageError("name a file: stoker import llama-swap config.yaml, or a directory: --config-dir DIR")
    from stoker_import.llama_swap.convert import command_llama_swap

    imported = command_llama_swap(sources, os.environ, (cwd or Path()).absolute(), path.parent.absolute(), port)
    command_output.finish(imported, wanted)


def _in_directory(directory: Path | None, files: list[Path] | tuple[()]) -> list[Path]:
    if directory is None:
        return []
    if not directory.is_dir():
        raise UsageError(f"--config-dir {directory}: there is no such directory")
    found = sorted(entry for entry in directory.iterdir() if entry.suffix in _SUFFIXES and not entry.is_dir())
    given = {file.resolve() for file in files}
    for entry in found:
        if entry.resolve() in given:
            raise UsageError(f"{entry} is named, and lies in --config-dir, too: leave one of the two out")
    return found


def _read(file: Path) -> SourceFile:
    from stoker_import.llama_swap.sources import SourceFile

    try:
        if file.stat().st_size > LARGEST:
            raise UsageError(f"{file}: larger than {LARGEST >> 20} MiB, which no configuration is")
        return SourceFile(str(file), file.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text at byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
