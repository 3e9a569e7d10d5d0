"""`stoker init`: a first configuration from what is on this machine. Asks little; every question has an answer."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.console import figures, options, terminal
from stoker.cli.console.errors import UsageError
from stoker.extensions import offered

if TYPE_CHECKING:
    from stoker.cli.machine.discover import ModelFile
    from stoker.cli.machine.serve_plan import MachineInventory, PlannedServe

MAX_MODELS = 4
"""How many models are taken by default, so that the first file stays readable."""


def init(
    path: Annotated[Path, typer.Option("--path", metavar="FILE", help="Where to write.")] = Path("stoker.toml"),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; take every default.")] = False,
    force: Annotated[bool, typer.Option("--force", help=options.OVERWRITES)] = False,
    json: options.Json = False,
) -> None:
    """Write a first stoker.toml. Looks for GPUs, GGUF files and engines, and explains each choice in a comment."""
    if path.exists() and not force:
        raise UsageError(
            f"{path} exists: check it with `stoker config check --config {path}`, or overwrite it: --force"
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the directory {path.parent} does not exist; create it, or choose another --path")
    from stoker.cli.machine import discover, serve_plan
    from stoker.config.paths import default_vault
    from stoker.engines.registry import DEFAULT
    from stoker.store.files import atomic
    from stoker_setup.commands import init_config

    asks = not (yes or json)
    if asks and not sys.stdin.isatty():
        terminal.note("there is no terminal to ask questions on, so every default is taken, as with --yes")
        asks = False
    vault = default_vault()
    found = take_inventory(vault)
    if not json:
        report(found)
    port = typer.prompt("Port to listen on", default=8000, type=int) if asks else 8000
    chosen = ask_models(found.models) if asks and not found.demo else list(found.models[:MAX_MODELS])
    wanted = replace(found, models=chosen, unusable=(), left_out=())
    planned = serve_plan.plan_serves(wanted)
    kept = atomic.replace_text(path, init_config.config_text(wanted, port, planned))
    if kept is not None:
        terminal.note(options.kept_text(path, kept))
    problems = _problems(path)
    where = path.absolute()
    if json:
        terminal.emit(_document(found, where, problems, planned))
        return
    _report_contexts(planned)
    terminal.say(f"wrote {where}")
    for problem in problems:
        terminal.note(f"to fix before it runs: {problem}")
    if not discover.has_default(found.engines):
        terminal.say(f"first: {DEFAULT.install}   (or put {DEFAULT.program} on PATH)")
    is_default = path.name == "stoker.toml" and where.parent == Path.cwd()
    there = "" if is_default else f" --path {shlex.quote(str(where))}"
    if not found.models:
        terminal.say(
            f"next: put a GGUF file into {vault}, then stoker init --force" + there + "; or try stoker up --demo"
        )
        return
    if any(model.origin.startswith("Ollama") for model in found.models):
        terminal.say("with Ollama's own names and parameters: stoker import ollama --force --partial" + there)
    terminal.say("next: stoker up" if is_default else f"next: stoker up --config {shlex.quote(str(where))}")


def take_inventory(vault: Path) -> MachineInventory:
    """GPUs, models and engines of this machine; the shipped models if there is no other."""
    from stoker.cli.machine import discover
    from stoker.cli.machine.serve_plan import MachineInventory
    from stoker.fleet.memory import devices

    unusable: list[str] = []
    own = discover.models(discover.model_directories(vault), on_unusable=unusable.append)
    find_local_models = offered("local-models")
    local = find_local_models(os.environ, Path.home()) if find_local_models is not None else None
    models = merge_models(own, local.models if local is not None else ())
    found = models or shipped_models()
    is_demo = not models and bool(found)
    said = set(unusable)
    left_out = [
        f"{one.title} of {one.origin}: {one.reason}"
        for one in (local.left_out if local is not None else ())
        if one.reason not in said
    ]
    gpus, others = discover.gpus(), devices.in_main_memory()
    return MachineInventory(gpus, found, discover.engines(), vault, is_demo, unusable, left_out, others)


def merge_models(own: Sequence[ModelFile], others: Sequence[ModelFile]) -> list[ModelFile]:
    """Each file once, those in Stoker's own places first. The program that downloaded a file names it."""
    by_file = {model.path.resolve(): model for model in others}
    found = [by_file.pop(model.path.resolve(), model) for model in own]
    return [*found, *by_file.values()]


def report(found: MachineInventory) -> None:
    from stoker.cli.machine import discover, serve_plan
    from stoker.engines.registry import DEFAULT

    for slot in serve_plan.gpu_slots(found.gpus):
        memory = "memory unknown" if slot.gpu.memory is None else figures.size(slot.gpu.memory)
        terminal.say(f"GPU     {slot.word}: {slot.gpu.name}, {memory}")
    if not found.gpus and found.in_main_memory:
        which = ", ".join(found.in_main_memory)
        terminal.say(
            f"GPU     none found with memory of its own; {which} computes in main memory, if the engine is built"
        )
        terminal.say("        for it (Vulkan, ROCm, SYCL)")
    elif not found.gpus:
        terminal.say("GPU     none found; models will run on the CPU")
    for place, model in enumerate(found.models, start=1):
        shipped = ", comes with Stoker" if found.demo else ""
        origin = f", from {model.origin}" if model.origin else ""
        terminal.say(f"model   {place}: {model.path} ({figures.size(model.size)}{origin}{shipped})")
    for reason in found.left_out:
        terminal.say(f"ignored {reason}")
    for problem in found.unusable:
        terminal.say(f"ignored {problem}")
    if not found.models:
        terminal.say("model   none found; nothing to serve yet")
    for engine in found.engines:
        terminal.say(f"engine  {engine.name}: {engine.where}")
    if not discover.has_default(found.engines):
        how = f"{DEFAULT.install}, or put {DEFAULT.program} on PATH"
        terminal.say(f"engine  no {DEFAULT.title} found; install it: {how}")


def _report_contexts(planned: Sequence[PlannedServe]) -> None:
    """The context of each serve, and whether it is enough for agents."""
    from stoker.cli.machine import serve_plan
    from stoker_setup.clients.agents import AGENTS
    from stoker_setup.clients.needs import AGENT_CONTEXT, needed_context

    for serve in planned:
        if serve.context is None:
            terminal.note(f"context {serve.name}: {serve_plan.CONTEXT} tokens, a guess: {serve.problem}")
        else:
            is_all = serve.trained == serve.context
            limit = ", all that it was trained for" if is_all else f" of {serve.trained} that it was trained for"
            each = f"for each of {serve_plan.PARALLEL} requests at once"
            terminal.say(f"context {serve.name}: {serve.context} tokens{limit}, {each}")
    small = [serve.name for serve in planned if (serve.context or serve_plan.CONTEXT) < AGENT_CONTEXT]
    if small:
        terminal.say(
            f"agents  most coding agents need a context of up to {AGENT_CONTEXT} tokens, some up to "
            f"{max(needed_context(one) or 0 for one in AGENTS)}, which {', '.join(small)} cannot give; "
            "`stoker client NAME` says what each needs"
        )


def ask_models(models: Sequence[ModelFile]) -> list[ModelFile]:
    """Ask which of the numbered models to serve. Asks again until the answer is a list of their numbers."""
    if not models:
        return []
    default = ",".join(str(n) for n in range(1, min(len(models), MAX_MODELS) + 1))
    while True:
        answer: str = typer.prompt("Models to serve (numbers, comma separated)", default=default)
        numbers = [part.strip() for part in answer.split(",") if part.strip()]
        if numbers and all(n.isdigit() and 1 <= int(n) <= len(models) for n in numbers):
            return [models[int(n) - 1] for n in dict.fromkeys(numbers)]
        terminal.note(f"give numbers from 1 to {len(models)}, such as {default}")


def shipped_models() -> list[ModelFile]:
    from stoker.cli.machine.discover import ModelFile
    from stoker.config.demo import demo

    paths = [Path(serve.model) for serve in demo(Path("/nonexistent"), 8000).serves]
    return [ModelFile(path, path.stat().st_size) for path in paths if path.is_file()]


def _problems(path: Path) -> list[str]:
    from stoker.config.load import load
    from stoker.domain.errors import ConfigError

    try:
        load(path)
    except ConfigError as error:
        return error.problems
    return []


def _document(
    found: MachineInventory, path: Path, problems: list[str], planned: Sequence[PlannedServe]
) -> dict[str, object]:
    return {
        "path": str(path),
        "problems": problems,
        "gpus": [{"index": g.index, "uuid": g.uuid, "name": g.name, "memory": g.memory} for g in found.gpus],
        "models": [{"path": str(m.path), "size": m.size, "origin": m.origin or None} for m in found.models],
        "ignored": [*found.unusable, *found.left_out],
        "serves": [
            {"name": s.name, "model": str(s.model.path), "slot": s.slot, "context": s.context, "trained": s.trained,
             "problem": s.problem or None}
            for s in planned
        ],
        "engines": [{"name": e.name, "where": e.where} for e in found.engines],
    }  # fmt: skip
