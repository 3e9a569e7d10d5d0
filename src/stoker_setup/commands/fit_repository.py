"""`stoker fit hf:ORG/REPO`: which of a repository's models this machine can run, and how."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import typer

from stoker.cli.console import figures, terminal
from stoker.cli.console.errors import FAILED, UsageError

if TYPE_CHECKING:
    from stoker.fleet.memory.devices import Device, DeviceProbe
    from stoker.fleet.memory.fit.estimate import Shape
    from stoker_setup.hub import Hub, HubRepository
    from stoker_setup.hub_models import Choice

_COLUMNS = ("MODEL", "QUANT", "SIZE", "VERDICT", "CONTEXT", "SPEED")


class HubQuestion(NamedTuple):
    target: str
    context: int | None
    parallel: int
    cache_type: str | None
    devices: list[Device] | None
    """What to act as; None: what this machine has."""
    memory: str
    """The option that says what to act as, behind a command that is proposed."""
    place: str
    """The options of the command that say which Stoker is meant; empty: none."""


def show(asked: HubQuestion, probe: DeviceProbe, held: int, json: bool) -> None:
    """Print the models of a repository with their verdicts. Raises typer.Exit(1) if none fits, and HubRefused."""
    from stoker.fleet.memory.host import host_memory
    from stoker.fleet.weights.sources import parse
    from stoker_setup import bandwidth
    from stoker_setup import hub_models as models
    from stoker_setup.hub import Hub

    try:
        source = parse(asked.target)
    except ValueError:
        raise UsageError(f"{asked.target} names no repository: write hf:ORG/REPO, or hf:ORG/REPO/FILE") from None
    devices = asked.devices if asked.devices is not None else list(probe.devices())
    judge = partial(
        models.judged, devices=devices, main=host_memory(credit=held), context=asked.context, parallel=asked.parallel,
        cache_type=asked.cache_type, host_bandwidth=bandwidth.main_memory(),
    )  # fmt: skip
    repository, found = read_choices(Hub.of(os.environ), source.place, "main", source.path, judge)
    best = models.best(found)
    if json:
        terminal.emit({
            "repository": repository.name, "commit": repository.commit, "recommended": best.file if best else None,
            "models": [choice_document(choice) for choice in found],
            "left_out": models.left_out(repository, source.path),
        })  # fmt: skip
    else:
        _print(asked, source.place, found, best, devices, models.left_out(repository, source.path))
    if best is None:
        raise typer.Exit(FAILED)


def read_choices(
    hub: Hub, name: str, revision: str, under: str, judge: Callable[[Shape, str], Choice]
) -> tuple[HubRepository, list[Choice]]:
    """The models of a repository below the path `under`, smallest first, with progress. Raises HubRefused."""
    from stoker.cli.console.progress import ProgressLine
    from stoker_setup.hub_models import choices

    with ProgressLine() as line:
        line.show(f"asking for the files of {name}", 0.0, None)
        repository = hub.repository(name, revision)
        return repository, choices(
            hub, repository, under, judge,
            lambda path, number, count: line.show(f"reading the header of {path}", number / (count + 1), None),
        )  # fmt: skip


def _print(
    asked: HubQuestion, name: str, found: list[Choice], best: Choice | None, devices: list[Device], left_out: list[str]
) -> None:  # fmt: skip
    from stoker_setup.hub_models import ROOMY, why_best

    if not found:
        terminal.say(f"{asked.target} has no model that an engine here could run: neither GGUF nor safetensors files")
        if asked.target.removeprefix("hf:") != name:
            terminal.say(f"what it has: stoker fit hf:{name}{asked.place}")
        return
    show_choices(found, devices, asked.parallel)
    if left_out:
        more = figures.counted(len(left_out), "further model")
        folder = left_out[0].rpartition("/")[0] or left_out[0]
        terminal.say(f"{more} not looked at; name a path: stoker fit {shlex.quote(f'hf:{name}/{folder}')}{asked.place}")
    for problem in dict.fromkeys(choice.problem for choice in found if choice.problem and best is None):
        terminal.say(f"  {problem}")
    if best is None:
        terminal.say("next: take a smaller model, or a device with more memory (--device-memory SIZE tries one)")
        return
    setting = ", with " + " and ".join(f"`{line}`" for line in best.setting.splitlines()) if best.setting else ""
    where = f", on {' and '.join(best.devices)}" if best.devices else ""
    terminal.say(f"best: {best.file}, {why_best(best, found)}{setting}{where}")
    is_short = asked.context is None and (best.context or 0) < min(ROOMY[0], best.trained or ROOMY[0])
    if is_short and asked.cache_type is None:
        smaller = "q8_0" if best.file.endswith(".gguf") else "fp8"
        typed = f"stoker fit {shlex.quote(asked.target)} --cache-type {smaller}{asked.memory}{asked.place}"
        terminal.say(f"for nearly twice the context: {typed}")
    wanted = shlex.quote(name if best.file == "./" else f"{name}/{best.file}")
    terminal.say(f"next: stoker add hf:{wanted}{asked.place}")


def show_choices(found: Sequence[Choice], devices: Sequence[Device], parallel: int, is_numbered: bool = False) -> None:
    """A table of models, and what it was judged for. `is_numbered`: one of them is asked for."""
    rows = [
        (
            *([str(number)] if is_numbered else []), choice.file, choice.precision, figures.size(choice.size),
            str(choice.verdict), figures.number(choice.context), _speed(choice),
        )
        for number, choice in enumerate(found, start=1)
    ]  # fmt: skip
    terminal.table((*(["NO"] if is_numbered else []), *_COLUMNS), rows, right=("NO", "SIZE", "CONTEXT"))
    where = ", ".join(f"{device.name}, {figures.size(device.total)}" for device in devices) or "main memory"
    many = f" for each of {parallel} requests" if parallel > 1 else ""
    terminal.say()
    terminal.say(f"for {where}; context: the tokens that fit{many}; speed: an estimate, from memory bandwidth")
    if len({device.vendor for device in devices}) > 1:
        terminal.say("devices of different vendors are judged apart: most builds of an engine are for one vendor")


def _speed(choice: Choice) -> str:
    from stoker_setup.bandwidth import speed_class

    if choice.speed is None:
        return figures.UNKNOWN if choice.context is not None else ""
    return (
        f"{speed_class(choice.speed)}, about {choice.speed:.2g}/s"
        if choice.speed < 10
        else (f"{speed_class(choice.speed)}, about {choice.speed:.0f}/s")
    )


def choice_document(choice: Choice) -> dict[str, object]:
    from stoker_setup.bandwidth import speed_class

    speed = None
    if choice.speed is not None:
        speed = {"class": speed_class(choice.speed), "tokens_per_second": round(choice.speed, 1), "is_estimate": True}
    return {
        "file": choice.file, "precision": choice.precision, "size": choice.size, "verdict": choice.verdict,
        "context": choice.context, "setting": choice.setting or None, "speed": speed,
        "devices": list(choice.devices) or None, "problem": choice.problem or None,
        "memory": asdict(choice.memory) if choice.memory is not None else None,
    }  # fmt: skip
