"""`stoker import`: one command for each program that can be moved from."""

from __future__ import annotations

import typer

from stoker.cli.commands import import_litellm, import_llama_swap, import_models
from stoker.cli.console.hints import CommandsWithHints

app = typer.Typer(
    cls=CommandsWithHints,
    help="Move from another program: its models and its configuration, and a report of what became of each key.",
    no_args_is_help=True,
)
app.command("llama-swap")(import_llama_swap.llama_swap)
app.command()(import_models.ollama)
app.command()(import_models.lmstudio)
app.command()(import_models.hf)
app.command("llama.cpp")(import_models.llama_cpp)
app.command()(import_litellm.litellm)
