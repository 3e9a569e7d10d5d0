"""`stoker import`: one command for each program that can be moved from."""

from __future__ import annotations

import typer

from stoker.cli.console.hints import CommandsWithHints
from stoker_import import command_litellm, command_llama_swap, command_models


class ImportCommands(CommandsWithHints):
    instead = dict.fromkeys(("folder", "gguf", "models"), "stoker init, or stoker import llama.cpp DIR")


app = typer.Typer(
    cls=ImportCommands,
    help="Move from another program: its models and its configuration, and a report of what became of each key.",
    no_args_is_help=True,
)
app.command("llama-swap")(command_llama_swap.llama_swap)
app.command()(command_models.ollama)
app.command()(command_models.lmstudio)
app.command()(command_models.hf)
app.command("llama.cpp")(command_models.llama_cpp)
app.command()(command_litellm.litellm)
