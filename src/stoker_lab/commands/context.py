"""`stoker eval context`: the largest context that works, found by restarting the engine for each candidate."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import FAILED, INTERRUPTED, NotRunning, UsageError
from stoker.cli.console.installation import Installation, find_installation

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.run import Run
    from stoker.domain.serve import Serve
    from stoker_lab.trials.context_search import ContextTrial, StartedEngine, StartEngine

_LARGEST = 131_072


def context(
    serve: options.OneServe = None,
    low: Annotated[int, typer.Option("--from", min=256, metavar="N", help="The first candidate.")] = 2048,
    high: Annotated[
        int | None,
        typer.Option(
            "--to", min=256, metavar="N", help="The largest candidate. Default: what the model was trained for."
        ),
    ] = None,
    concurrency: Annotated[
        float, typer.Option("--concurrency", min=1, metavar="N", help="Requests of full length at once.")
    ] = 1.0,
    config: options.Config = None,
    state: options.State = None,
    json: options.Json = False,
) -> None:
    """Find the largest context that works. The engine is restarted for each candidate; its slot has to be empty."""
    from stoker_lab.commands.own_engine import OwnEngine
    from stoker_lab.lock import hold_measurement_lock

    installation = find_installation(config, state)
    chosen = serve_on_its_devices(installation, installation.configured(), serve)
    _require_empty(installation, chosen)
    most = high or _trained_for(chosen)
    if most < low:
        raise UsageError(f"--from {low} is more than --to {most}")
    engine = OwnEngine(chosen, installation.logs / f"context-{chosen.name}.log", math.ceil(concurrency))
    with hold_measurement_lock(installation.state, chosen.slot or chosen.name, f"a context search of {chosen.name}"):
        run = _search(installation, chosen, engine.start, low, most, concurrency)
    _show(run, json)


def serve_on_its_devices(installation: Installation, settings: Settings, name: str | None) -> Serve:
    """Seeing only the devices of its slot, as it does when Stoker runs it."""
    from stoker.domain.serve import Driver
    from stoker.engines.masks import masked, uses_vulkan
    from stoker.fleet.memory.cards import this_machine

    if name is None and len(settings.serves) != 1:
        names = ", ".join(one.name for one in settings.serves) or "none is configured"
        raise UsageError(f"which serve? name one of them: {names}")
    serve = installation.serve(name) if name is not None else settings.serves[0]
    slot = settings.slot(serve.slot)
    if slot is not None and slot.cluster is not None:
        return replace(serve, driver=Driver.RAY)
    return masked(serve, slot, this_machine(uses_vulkan(serve)))


def _require_empty(installation: Installation, serve: Serve) -> None:
    """What lives on the same devices would take the memory that is searched for."""
    from stoker.domain.serve import share_slot

    try:
        with installation.control() as control:
            status = control.status()
    except NotRunning:
        return
    there = [
        one.name
        for one in status.serves
        if not one.is_gone and (one.name == serve.name or share_slot(one.slot, serve.slot))
    ]
    if there:
        raise UsageError(
            f"{', '.join(there)} uses the devices that the candidates need; stop it: stoker serves down "
            f"{there[0]}{installation.place}",
            code="slot_taken",
        )


def _trained_for(serve: Serve) -> int:
    from stoker.domain.errors import UnreadableModel
    from stoker.fleet.memory.fit import gguf

    try:
        found = gguf.read(serve.model).context if serve.model.endswith(".gguf") else None
    except UnreadableModel:
        found = None
    return found or _LARGEST


def _search(
    installation: Installation, serve: Serve, start: StartEngine, low: int, high: int, concurrency: float
) -> Run:

    from stoker.domain.run import Outcome, RunKind, Subject
    from stoker_lab.artifacts.fingerprint import EngineReport
    from stoker_lab.commands import interruptible
    from stoker_lab.commands.own_engine import configured_fingerprint
    from stoker_lab.commands.save_run import build_run, save_run
    from stoker_lab.trials import context_search
    from stoker_lab.trials.context_search import ContextTrial

    began, trials, seen = time.time(), list[ContextTrial](), list[EngineReport]()
    outcome = Outcome.FAILED

    async def watched(length: int) -> StartedEngine:
        started = await start(length)
        seen.append(started.report)
        return started

    def show_trial(trial: ContextTrial) -> None:
        trials.append(trial)
        terminal.note(f"{trial.context}: {trial.outcome}")

    try:
        interruptible.run_interruptible(context_search.search_context(low, high, concurrency, watched, show_trial))
        outcome = Outcome.PASSED if any(trial.is_working for trial in trials) else Outcome.FAILED
    except KeyboardInterrupt:
        outcome = Outcome.INTERRUPTED
        terminal.note(f"interrupted after {len(trials)} candidates; their results were saved")
    subject = Subject(
        serve.name, serve.served_name or serve.name, "an engine of its own", "chat", "direct",
        configured_fingerprint(installation, serve.name, seen[-1] if seen else EngineReport()),
    )  # fmt: skip
    settings: dict[str, object] = {"from": low, "to": high, "concurrency": concurrency}
    run = build_run(
        RunKind.CONTEXT,
        subject,
        began,
        outcome,
        context_search.findings(trials),
        context_search.numbers(trials),
        settings,
        trials,
    )
    save_run(run, installation.state)
    return run


def _show(run: Run, json: bool) -> None:
    from stoker.domain.run import Outcome
    from stoker_lab.commands.save_run import run_document

    if json:
        terminal.emit(run_document(run))
    else:
        columns = ("CONTEXT", "KV TOKENS", "AT ONCE", "PROVED WITH", "TOOK", "OUTCOME")
        rows = [
            (*(_figure(f.numbers.get(key)) for key in ("context", "kv_tokens", "concurrency", "prompt_tokens")),
             figures.seconds(f.seconds), f.observed)
            for f in run.findings
        ]  # fmt: skip
        terminal.table(columns, rows, right=columns[:5])
        largest = run.numbers.get("context")
        if largest is not None:
            terminal.say(f"\nlargest working context: {largest}; saved as {run.id}")
        else:
            terminal.say(f"\nno candidate works; saved as {run.id}")
    if run.outcome is not Outcome.PASSED:
        raise typer.Exit(INTERRUPTED if run.outcome is Outcome.INTERRUPTED else FAILED)


def _figure(number: float | int | None) -> str:
    return figures.UNKNOWN if number is None else f"{number:g}" if isinstance(number, float) else str(number)
