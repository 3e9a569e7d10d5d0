"""`stoker serves experiment`: one serve from parameters, in the foreground, without touching a configuration."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.commands import demo_screen
from stoker.cli.console import terminal
from stoker.cli.console.errors import UsageError
from stoker.cli.machine.serve_plan import slug

if TYPE_CHECKING:
    from stoker.domain.access import Settings
    from stoker.domain.serve import Serve
    from stoker.engines.masks import MachineCards


CONTEXT, PARALLEL = 4096, 4


def experiment(
    model: Annotated[
        str,
        typer.Option(
            "--model", help="A GGUF file; with --engine also a model of the hub, ORG/REPO; with --cmd, its {model}."
        ),
    ],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port for clients.")] = 8100,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="vllm, sglang or llama.cpp. Default: llama.cpp, for a file.", show_default=False),
    ] = None,
    container: Annotated[
        str | None, typer.Option("--container", metavar="IMAGE", help="Run the engine in this image, with Docker.")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="UUID_OR_INDEX", help="The only GPU that it may use; index in PCI order."),
    ] = None,
    served_name: Annotated[
        str | None, typer.Option("--served-name", help="Model name for clients. Default: derived from the model.")
    ] = None,
    context: Annotated[int, typer.Option("--context", min=1, help="Tokens that one request may use.")] = CONTEXT,
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="How many requests it runs at once.")] = PARALLEL,
    cmd: Annotated[
        str | None,
        typer.Option("--cmd", help="Any server with an OpenAI-like API: 'vllm serve {model} --port {port}'."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would run, and change nothing.")] = False,
    extra: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGS...]", help="Further arguments for the engine.")
    ] = None,
) -> None:
    """Run one serve from parameters, until Ctrl-C. Reads and changes no configuration."""
    serve = serve_for(model, gpu, served_name, context, parallel, cmd, tuple(extra or ()), engine, container)
    from stoker.app.configuration import placed_serves
    from stoker.cli.commands.dry_run import command_line
    from stoker.engines.masks import uses_vulkan

    settings = settings_for(serve, port, gpu, Path(tempfile.gettempdir()))
    [placed] = placed_serves(settings, _machine(uses_vulkan(serve)))
    started = command_line(placed)  # what cannot start is refused before anything listens
    if gpu is not None and (note := _unknown_gpu(gpu)):
        terminal.note(f"stoker: {note}")
    if dry_run:
        terminal.say(f"would listen on http://127.0.0.1:{port}/v1 and start:\n  {started}")
        return
    from stoker.app.run import run
    from stoker.cli.commands.up import require_port

    state = Path(tempfile.mkdtemp(prefix="stoker-experiment-"))
    settings = settings_for(serve, port, gpu, state)
    given = {"--model": model, "--engine": engine, "--container": container, "--gpu": gpu, "--served-name": served_name,
             "--context": None if context == CONTEXT else str(context),
             "--parallel": None if parallel == PARALLEL else str(parallel), "--cmd": cmd}  # fmt: skip
    words = [word for option, value in given.items() if value is not None for word in (option, value)]
    require_port(settings, shlex.join(["stoker", "serves", "experiment", *words]), ("--", *extra) if extra else ())
    code = 1
    try:
        code = run(
            settings,
            leave_running=False,
            announce=terminal.say,
            read=None,
            force=frozenset((serve.name,)),
            welcome=lambda needs_key: screen(settings),
        )
    finally:
        if code == 0:
            shutil.rmtree(state)
        else:
            terminal.note(f"the log is kept: {state / 'logs' / (serve.name + '.log')}")
    raise typer.Exit(code)


def serve_for(
    model: str,
    gpu: str | None,
    served_name: str | None,
    context: int,
    parallel: int,
    cmd: str | None,
    extra: tuple[str, ...],
    engine: str | None = None,
    image: str | None = None,
) -> Serve:
    """The one serve. Raises UsageError for weights that are not there, a command without a port, and options that do
    not go together.
    """
    from stoker.domain.serve import Serve, Status
    from stoker.engines.masks import container_options, container_problem
    from stoker.engines.registry import DEFAULT, GENERIC, engine_of
    from stoker_lab.commands import serves_experiment_engine as engines

    engines.check_engine(engine, cmd, image)
    if cmd is None:
        model = engines.find_weights(model, engine)
    elif "{port}" not in cmd:
        raise UsageError("--cmd must contain {port}; Stoker fills in a free port")
    name = served_name or slug(model)
    kind = GENERIC.name if cmd is not None else engine or DEFAULT.name
    if cmd is not None:
        how = engines.ExperimentCommand(tuple(shlex.split(cmd)))
    else:
        machine, words = _machine() if image is not None else None, (gpu,) if gpu else ()
        if machine is not None and (problem := container_problem(words, machine)):
            raise UsageError(f"--gpu {gpu}: {problem}")
        devices = container_options(words, machine) if machine is not None else ()
        how = engines.command(kind, model, name, slug(name), context, parallel, image, devices)
    is_fetched = image is not None or (cmd is None and not os.path.isabs(model))
    return Serve(
        name=slug(name),
        engine=kind,
        model=model,
        served_name=name,
        slot="experiment",
        context=context,
        parallel=parallel,
        max_active=parallel,
        status=Status.EXPERIMENT,
        cmd=None if how.cmd is None else (*how.cmd, *extra),
        stop=how.stop,
        extra_args=extra if how.cmd is None else (),
        keep_loaded=True,
        ready_timeout=engines.FETCHED_WITHIN if is_fetched else 600.0,
        dialects=engine_of(kind).dialects,
        directory=os.getcwd(),
    )


def _unknown_gpu(gpu: str) -> str:
    """Empty: it was found."""
    from stoker.engines.masks import names_device

    cards = _machine().cards
    if any(names_device(gpu, card.vendor, card.index, card.uuid, card.address) for card in cards):
        return ""
    there_are = f"there are {', '.join(f'{card.vendor}:{card.index}' for card in cards)}" if cards else "there is none"
    return f"--gpu {gpu}: no such GPU was found ({there_are}); the engine may use the CPU, or fail"


def _machine(with_vulkan: bool = False) -> MachineCards:
    """Its devices; if no library of the drivers is installed here, those that their tools show."""
    from stoker.cli.machine import discover
    from stoker.engines.masks import Card
    from stoker.fleet.memory.cards import this_machine

    machine = this_machine(with_vulkan)
    if machine.cards and machine.is_complete:
        return machine
    seen = {card.vendor for card in machine.cards}
    others = [Card(gpu.vendor, gpu.index, gpu.uuid) for gpu in discover.gpus() if gpu.vendor not in seen]
    unseen = machine.unseen - {card.vendor for card in others}
    return replace(machine, cards=(*machine.cards, *others), unseen=unseen)


def settings_for(serve: Serve, port: int, gpu: str | None, state: Path) -> Settings:
    """A front door on loopback, one slot, one serve."""
    from stoker.domain.access import ListenSettings, Paths, Settings
    from stoker.domain.serve import Slot

    return Settings(
        front_door=ListenSettings(port=port),
        paths=Paths(state=str(state), logs=str(state / "logs"), vault=str(state / "vault")),
        slots=(Slot("experiment", devices=(gpu,) if gpu else ()),),
        serves=(serve,),
    )


def screen(settings: Settings) -> str:
    """Where it answers, and how it would be measured."""
    serve, url = settings.serves[0], demo_screen.base_url(settings)
    name = shlex.quote(serve.served_name)
    return (
        f"\nexperiment '{serve.name}' answers at {url} as model '{serve.served_name}'\n"
        f"watch it: stoker serves status --state {settings.paths.state}\n"
        "preflight it:\n"
        f"  stoker eval preflight --base-url {url} --model {name}\n"
    )
