"""`stoker orchestrator`: the requests that were written block by block, and the prompts in use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import RequestRefused, UsageError
from stoker.cli.console.hints import CommandsWithHints
from stoker.cli.console.installation import Installation, find_installation
from stoker.domain.errors import ConfigError

if TYPE_CHECKING:
    from stoker_orchestrator.memory.pads import Scratchpads
    from stoker_orchestrator.orchestrator import Orchestrator

app = typer.Typer(
    cls=CommandsWithHints, help="Requests that were written block by block, and their prompts.", no_args_is_help=True
)
options.accept_config(app)
_COLUMNS = ("REQUEST", "ORCHESTRATOR", "WORKER", "CLASS", "OUTCOME", "BLOCKS", "AGE")
OPEN = "open"
"""The outcome of a request that is under way, or was broken off."""


@app.command("list")
def list_(config: options.Config = None, state: options.State = None, json: options.Json = False) -> None:
    """List the saved requests, the newest first. `open`: under way, or broken off."""
    installation = find_installation(config, state)
    saved, now = _pads(installation).saved(), time.time()
    if json:
        terminal.emit([
            {"request": run.head.request, "orchestrator": run.head.orchestrator, "worker": run.head.worker,
             "class": run.head.task, "outcome": run.outcome or OPEN, "blocks": len(run.committed), "at": run.head.at,
             "resumes": run.head.resumes or None}
            for run in saved
        ])  # fmt: skip
        return
    if not saved:
        terminal.say("no requests are saved")
        known = installation.settings.names_in("orchestrator") if installation.settings is not None else None
        if known == ():
            how = "configure one, see docs/guides/orchestrator.md"
        elif known is not None and len(known) > 1:
            how = f'try it: stoker run --model {known[0]} "PROMPT"{installation.place}'
        else:
            how = f'try it: stoker run "PROMPT"{installation.place}'
        terminal.note(f"only what an orchestrator writes, block by block, is saved; {how}")
        return
    rows = [
        (run.head.request, run.head.orchestrator, run.head.worker, run.head.task, run.outcome or OPEN,
         str(len(run.committed)), figures.seconds(max(0.0, now - run.head.at)))
        for run in saved
    ]  # fmt: skip
    terminal.table(_COLUMNS, rows, right=("BLOCKS", "AGE"))


@app.command()
def show(
    request: Annotated[
        str,
        typer.Argument(metavar="REQUEST", help="Id of a request.", autocompletion=options.orchestrated_requests),
    ],
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Show what was written, found and committed for a request, as Markdown."""
    import msgspec

    installation = find_installation(config, state)
    try:
        saved = _pads(installation).read(request)
    except (OSError, ValueError) as error:
        raise RequestRefused(
            f"there is no scratchpad of request '{request}' under {installation.state}: it was answered without "
            f"blocks, or its time is over; list those that are kept: stoker orchestrator list{installation.place}",
            code="unknown_request",
            status=404,
        ) from error
    if json:
        terminal.emit({
            "head": msgspec.to_builtins(saved.head), "outcome": saved.outcome or OPEN,
            "blocks": msgspec.to_builtins(saved.committed), "text": saved.text,
        })  # fmt: skip
        return
    terminal.say(saved.text.rstrip())


@app.command()
def prompts(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="An orchestrator. Default: all.", autocompletion=options.orchestrator_names,
            show_default=False,
        ),
    ] = None,
    ship: Annotated[bool, typer.Option("--ship", help="Show the prompts that ship with Stoker.")] = False,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:  # fmt: skip
    """Show the prompts of worker and validator that are in use."""
    from stoker_orchestrator.prompts import VALIDATOR_PROMPT, WORKER_PROMPT

    if ship:
        shown = [{"orchestrator": None, "role": role, "source": "ships with Stoker", "text": text}
                 for role, text in (("worker", WORKER_PROMPT), ("validator", VALIDATOR_PROMPT))]  # fmt: skip
    else:
        shown = [
            {"orchestrator": one.name, "role": role, "source": source or "ships with Stoker", "text": text or shipped}
            for one in _chosen(_configured(config, state), name)
            for role, source, text, shipped in (
                ("worker", one.worker_prompt_file, one.worker_prompt, WORKER_PROMPT),
                ("validator", one.validator_prompt_file, one.validator_prompt, VALIDATOR_PROMPT),
            )
            if role == "worker" or one.validator
        ]
    if json:
        terminal.emit(shown)
        return
    for one in shown:
        whose = f" of {one['orchestrator']}" if one["orchestrator"] else ""
        terminal.say(f"# {one['role']} prompt{whose} ({one['source']})\n\n{str(one['text']).rstrip()}\n")


def _configured(config: str | None, state: str | None) -> tuple[Orchestrator, ...]:
    """Those of the configuration, or of the demo."""
    from stoker.cli.console.installation import demo_state
    from stoker.config.demo import demo
    from stoker_orchestrator.orchestrator import orchestrators_of

    installation = find_installation(config, state)
    if installation.settings is None and installation.state == demo_state():
        return orchestrators_of(demo(installation.state, 1))
    return orchestrators_of(installation.configured())


def _chosen(configured: tuple[Orchestrator, ...], name: str | None) -> list[Orchestrator]:
    if not configured:
        text = "no orchestrator is configured; the prompts that ship are shown by: stoker orchestrator prompts --ship"
        raise ConfigError([text])
    if name is None:
        return list(configured)
    found = [one for one in configured if one.name == name]
    if not found:
        from stoker.domain.nearest import did_you_mean

        names = [one.name for one in configured]
        hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
        raise UsageError(f"there is no orchestrator '{name}'{hint}", code="unknown_orchestrator")
    return found


def _pads(installation: Installation) -> Scratchpads:
    from stoker_orchestrator.memory.pads import Scratchpads

    return Scratchpads(installation.state / "orchestrator", time.time)
