"""What people see and what programs see.

Results go to stdout, everything else to stderr, so that `--json` and pipes stay clean. Colours
only on a terminal, and never with NO_COLOR.

All output goes through here, so that no name, error or log can control the terminal: control
characters and marks that turn text around are written as `\\u001b`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from stoker.domain.printable import one_line, printable, without_colours

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_STYLES = {
    "ready": "green", "ok": "green", "served": "green", "production": "green",
    "starting": "yellow", "draining": "yellow", "stopping": "yellow", "warn": "yellow", "client_left": "yellow",
    "backoff": "red", "held": "red", "fail": "red", "bug": "bold red", "upstream_failed": "red", "cut": "red",
    "stalled": "red", "refused": "red", "rejected": "red", "blocked": "red", "parked": "bold red", "sick": "red",
    "cannot load": "bold red",
    "failed": "red", "exited": "red", "restarted": "yellow", "asleep": "blue", "verified": "green",
}  # fmt: skip
_PIPE_WIDTH = 400
"""Columns without a terminal, so that a table in a pipe or a file is not cut at 80."""


def say(text: str = "") -> None:
    """A result, or a part of one, on stdout."""
    typer.echo(printable(text))


def note(text: str) -> None:
    """Something beside the result, on stderr."""
    typer.echo(printable(text), err=True)


def say_piece(text: str) -> None:
    """A part of a line on stdout, shown now."""
    typer.echo(printable(text), nl=False)


def note_in(style: str, text: str) -> None:
    """As `note`, on one line, in a colour on a terminal that shows colours."""
    from rich.text import Text

    if os.environ.get("NO_COLOR"):  # rich would still dim and embolden
        style = ""
    console(stderr=True).print(Text(one_line(text), style=style), soft_wrap=True)


def say_log(text: str, end: str = "\n") -> None:
    """What an engine wrote, on stdout: without its colours, and each redrawing of a progress bar as a line."""
    lines = without_colours(text).replace("\r\n", "\n").replace("\r", "\n")
    typer.echo(printable(lines) + end, nl=False)


def emit(document: object) -> None:
    """The result for programs: one JSON document on stdout."""
    typer.echo(printable(json.dumps(document, indent=2, ensure_ascii=False)))


def is_live(stderr: bool = False) -> bool:
    """Whether lines may be redrawn: a terminal that understands more than newlines."""
    stream = sys.stderr if stderr else sys.stdout
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def console(stderr: bool = False) -> Console:
    """A rich console for stdout or stderr. It respects NO_COLOR."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Escaping(Console):
        """Text is escaped as the last thing before it is drawn; rich's own commands (`control`) are not text."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    live = is_live(stderr)
    return Escaping(
        stderr=stderr,
        force_terminal=live,
        width=None if live else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def styled(text: str) -> Text:
    """A word in the colour that it has everywhere."""
    from rich.text import Text

    return Text(one_line(text), style=_STYLES.get(text, ""))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()) -> None:
    """Print rows under column names; the columns named in `right` are aligned right."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(Text(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(styled(cell) for cell in row))
    out = console()
    with out.capture() as captured:
        out.print(drawn)
    # Rich fills every line with spaces up to the table's width; in a pipe they are noise.
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
