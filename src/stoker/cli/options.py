"""Options that many commands share, and completion of serve names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from stoker.cli.failure import UsageError

Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "--manifest",
        "-c",
        metavar="FILE",
        help="Configuration file. Default: $STOKER_CONFIG, ./stoker.toml, then ~/.config/stoker/stoker.toml.",
        show_default=False,
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="State directory of the running Stoker, instead of the configuration's.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print exactly what would run, and change nothing.")]
Force = Annotated[bool, typer.Option("--force", help="Also a serve whose status is rejected or blocked.")]
DrainTimeout = Annotated[
    str | None,
    typer.Option(
        "--drain-timeout",
        metavar="TIME",
        help='Time that streams of a serve that must go get to end ("30s"; "0s" cuts at once).',
        show_default=False,
    ),
]


def serve_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of configured serves that begin with `incomplete`. Reads names only: a key press must not wait."""
    import tomllib

    from stoker.config.paths import default_config

    given = context.params.get("config") or os.environ.get("STOKER_CONFIG")
    places = [Path(given).expanduser()] if given else [Path("stoker.toml"), default_config()]
    for place in places:
        try:
            serves = tomllib.loads(place.read_text(encoding="utf-8")).get("serve", [])
        except (OSError, ValueError):
            continue  # a broken or missing file must not print into somebody's command line; `config check` tells
        tables = [t for t in serves if isinstance(t, dict)] if isinstance(serves, list) else []
        names = [t["name"] for t in tables if isinstance(t.get("name"), str) and not t.get("abstract")]
        return [name for name in names if name.startswith(incomplete)]
    return []


ServeName = Annotated[str, typer.Argument(metavar="SERVE", help="Name of a serve.", autocompletion=serve_names)]
MaybeServe = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]", help="Name of a serve. Default: all.", autocompletion=serve_names, show_default=False
    ),
]
OneServe = Annotated[
    str | None,
    typer.Argument(
        metavar="[SERVE]",
        help="A serve, by any of its names. Default: the only one to choose from.",
        autocompletion=serve_names,
        show_default=False,
    ),
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="Any server instead.")]
ModelThere = Annotated[str | None, typer.Option("--model", metavar="ID", help="The model there.")]
KeyVariable = Annotated[str | None, typer.Option("--key-env", metavar="VARIABLE", help="The variable with the key.")]


def duration(text: str | None, option: str) -> float | None:
    """Seconds of an option's value. Raises UsageError that shows what is accepted."""
    if text is None:
        return None
    from stoker.config.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from error
