"""`stoker import litellm`: the configuration of LiteLLM's proxy as a stoker.toml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from stoker.cli.console import options
from stoker.cli.console.errors import UsageError
from stoker_import import command_output
from stoker_import.command_llama_swap import yaml_files
from stoker_import.command_output import ImportOptions

LARGEST = 4 << 20
"""Bytes of the file."""


def litellm(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="LiteLLM's configuration: config.yaml.", autocompletion=yaml_files)
    ],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port that Stoker listens on.")] = 4000,
    path: command_output.Target = command_output.DEFAULT_TARGET,
    check: command_output.Check = False,
    partial: command_output.Partial = False,
    force: command_output.Overwrite = False,
    json: options.Json = False,
) -> None:
    """Read the configuration of LiteLLM's proxy, write a stoker.toml, and report what became of every key.

    Keys that stand in the file move to files of their own, which only their owner can read.
    """
    wanted = ImportOptions(path, check, partial, force, json)
    command_output.check_target(wanted)
    from stoker_import.litellm.convert import command_litellm
    from stoker_import.yaml_file import load_yaml

    imported = command_litellm(load_yaml(_read(file), str(file)), str(file), port, os.environ)
    command_output.finish(imported, wanted)


def _read(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST:
            raise UsageError(f"{file}: larger than {LARGEST >> 20} MiB, which no configuration is")
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text at byte {error.start}") from error
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
