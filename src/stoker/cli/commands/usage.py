"""`stoker usage`: who used what. From the running Stoker, else from its file."""

from __future__ import annotations

import csv
import io
import time
from typing import Annotated, Any

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import NotRunning, UsageError
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.errors import ClientError

FIGURES = (
    "requests", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost",
    "accelerator_seconds", "swap_seconds", "ttft", "tokens_per_second",
    "audio_seconds", "characters", "images", "cache_write_tokens", "joules", "joules_per_1000_tokens",
)  # fmt: skip
_MEDIA = {"audio_seconds": "AUDIO", "characters": "CHARACTERS", "images": "IMAGES"}
"""Columns that are shown if there is anything in them."""
_ENERGY = ("WH", "J/1,000 TOKENS")
_FORMULAS = ("=", "+", "-", "@", "\t")
"""With these, a cell of a spreadsheet would begin a formula."""


def usage(
    by: Annotated[
        str, typer.Option("--by", metavar="WHAT", help="key, app, model, class, day or hour; several with commas.")
    ] = "key",
    since: Annotated[str, typer.Option("--since", metavar="TIME", help='How far back: "7d", "24h".')] = "7d",
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="NAME", help="Of one key.", autocompletion=options.key_names, show_default=False),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values, for spreadsheets.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Show requests, tokens, cost and accelerator time. Also works if Stoker does not run."""
    from stoker.domain.units import parse_duration

    if as_csv and json:
        raise UsageError("--csv and --json exclude each other: give one")
    try:
        seconds = parse_duration(since)
    except ValueError as error:
        raise UsageError(f"--since {since}: {error}; for days write 7d") from None
    answer = _read(find_installation(config, state), by, seconds, key)
    if json:
        terminal.emit(answer)
    elif as_csv:
        terminal.say(_csv(answer).rstrip())
    elif not answer["data"]:
        terminal.say(f"nothing was used in the last {since}")
    else:
        _table(answer)


def _read(installation: Installation, by: str, seconds: float, key: str | None) -> dict[str, Any]:
    from stoker.access.access_file import read_usage
    from stoker.access.usage import HOUR
    from stoker.access.usage_report import parse_dimensions, usage_report

    try:
        dimensions = parse_dimensions(by)
    except ClientError as error:
        raise UsageError(f"--by {by}: {error.message}") from None
    try:
        with installation.control() as control:
            return control.usage(by, seconds, key)
    except NotRunning:
        now = time.time()
        first = int((now - seconds) // HOUR)
        rows = read_usage(installation.state / "access.db", first, int(now // HOUR))
        if key is not None:
            rows = [row for row in rows if row[0][1] == key]
        total = next(iter(usage_report(rows, ())), None)
        data = usage_report(rows, dimensions)
        return {"by": list(dimensions), "from": first * HOUR, "to": now, "data": data, "total": total}


def _csv(answer: dict[str, Any]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*answer["by"], *FIGURES])
    for row in answer["data"]:
        names = [f"'{row[name]}" if str(row[name]).startswith(_FORMULAS) else row[name] for name in answer["by"]]
        writer.writerow([*names, *("" if row[name] is None else row[name] for name in FIGURES)])
    return out.getvalue()


def _table(answer: dict[str, Any]) -> None:
    names = [name.upper() for name in answer["by"]]
    columns = (*names, "REQUESTS", "FAILED", "INPUT", "CACHED", "OUTPUT", "COST", "ACCELERATOR", "SWAPS",
               "FIRST TOKEN", "TOKENS/S")  # fmt: skip
    media = [name for name in _MEDIA if any(row.get(name) for row in answer["data"])]
    has_energy = any(row.get("joules") for row in answer["data"])
    columns = (*columns, *(_MEDIA[name] for name in media), *(_ENERGY if has_energy else ()))

    def cells(row: dict[str, Any]) -> list[str]:
        return [*_figures(row), *_media(row, media), *(_energy(row) if has_energy else ())]

    rows = [[*(row[name] or "-" for name in answer["by"]), *cells(row)] for row in answer["data"]]
    if len(rows) > 1 and answer["total"] is not None:
        rows.append(["total", *[""] * (len(names) - 1), *cells(answer["total"])])
    terminal.table(columns, rows, right=columns[len(names) :])


def _figures(row: dict[str, Any]) -> list[str]:
    speed = row["tokens_per_second"]
    return [
        f"{row['requests']:,}",
        f"{row['failed']:,}" if row["failed"] else "-",
        f"{row['input_tokens']:,}",
        f"{row['cached_tokens']:,}" if row["cached_tokens"] else "-",
        f"{row['output_tokens']:,}",
        f"{row['cost']:.4f}" if row["cost"] else "-",
        figures.seconds(row["accelerator_seconds"]) if row["accelerator_seconds"] else "-",
        figures.seconds(row["swap_seconds"]) if row["swap_seconds"] else "-",
        figures.seconds(row["ttft"]),
        "-" if speed is None else f"{speed:.1f}",
    ]


def _energy(row: dict[str, Any]) -> list[str]:
    joules, each = row.get("joules"), row.get("joules_per_1000_tokens")
    return [f"{joules / 3600:,.2f}" if joules else "-", f"{each:,.0f}" if each else "-"]


def _media(row: dict[str, Any], names: list[str]) -> list[str]:
    found = ((name, row.get(name)) for name in names)
    return [
        "-" if not amount else figures.seconds(amount) if name == "audio_seconds" else f"{amount:,}"
        for name, amount in found
    ]
