"""`stoker route`: where a prompt would go, and why. No tier is asked."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stoker.cli.console import options, terminal
from stoker.cli.console.errors import FAILED
from stoker.cli.console.installation import find_running
from stoker.domain.task import risk_in_words


def route(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The prompt; `-` reads it from stdin.")],
    task: Annotated[
        str | None,
        typer.Option(
            "--class",
            metavar="CLASS",
            help="Act as if the caller had declared this class.",
            autocompletion=options.class_names,
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", metavar="NAME", help="Act as if for this model: `auto:CLASS`, or an alias of `auto`."),
    ] = "auto",
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Show which tier would answer PROMPT, and why: its class, and each tier in order."""
    text = sys.stdin.read() if prompt == "-" else prompt
    with find_running(config, state).control() as control:
        found = control.route(text, model, task)
    if json:
        terminal.emit(found)
    else:
        notes = f" ({', '.join(found['notes'])})" if found["notes"] else ""
        risk = ", high risk" if found["high_risk"] else ""
        from stoker.gateway.explain.facts import BY

        terminal.say(f"class {found['task']}{risk}, by {BY[found['source']]}{notes}")
        if why := risk_in_words(found["notes"]):
            terminal.say(f"risk {why}")
        rows = [(str(n), step["tier"], step["verdict"], step["verify"], step["why"])
                for n, step in enumerate(found["steps"], 1)]  # fmt: skip
        rows += [("-", one["tier"], "dropped", one["code"], one["why"]) for one in found["dropped"]]
        terminal.table(("ORDER", "TIER", "VERDICT", "CHECKS", "WHY"), rows)
        if found["refusal"]:
            terminal.note(f"stoker: {found['refusal']}")
    if found["refusal"]:
        raise typer.Exit(FAILED)
