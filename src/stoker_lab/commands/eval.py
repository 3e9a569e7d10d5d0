"""`stoker eval`: what a model does and what it costs, measured. One module per command, in `evaluate`."""

from __future__ import annotations

import typer

from stoker.cli.console import options
from stoker.cli.console.hints import CommandsWithHints
from stoker_lab.commands import (
    benchmark,
    bootstrap,
    canary,
    compare,
    context,
    planning,
    preflight,
    soak,
    sweep,
)

app = typer.Typer(
    cls=CommandsWithHints, help="Measurements of a model: what it does, and what it costs.", no_args_is_help=True
)
options.accept_config(app)
app.command()(preflight.preflight)
app.command()(benchmark.benchmark)
app.command()(canary.canary)
app.command()(soak.soak)
app.command()(context.context)
app.command()(sweep.sweep)
app.command()(compare.compare)
app.command()(bootstrap.bootstrap)
app.command()(bootstrap.calibrate)
app.command()(planning.planning)
