"""`stoker version`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from stoker import __version__
from stoker.cli.console import options, terminal
from stoker.domain.build import IS_COMPILED, describe_version
from stoker.extensions import InstalledExtension, installed_extensions


def version(
    json: options.Json = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also list the extensions.")] = False,
) -> None:
    """Print the version; with -v, also the extensions that are installed and what each adds."""
    print_version(json, verbose)


def print_version(as_json: bool = False, verbose: bool = False) -> None:
    extensions = installed_extensions() if verbose else ()
    if as_json:
        python = ".".join(str(n) for n in sys.version_info[:3])
        version = {"version": __version__, "compiled": IS_COMPILED, "python": python, "platform": sys.platform}
        terminal.emit(version | ({"extensions": [_extension_facts(one) for one in extensions]} if verbose else {}))
        return
    terminal.say(f"stoker {describe_version()}")
    for one in extensions:
        summary = one.extension.summary if one.extension is not None else f"cannot be used: {one.problem}"
        terminal.say(f"  {one.name} ({one.package}): {summary}")


def _extension_facts(installed: InstalledExtension) -> dict[str, Any]:
    extension = installed.extension
    return {
        "name": installed.name,
        "package": installed.package,
        "summary": extension.summary if extension is not None else None,
        "commands": [command.name for command in extension.commands] if extension is not None else [],
        "problem": installed.problem or None,
    }
