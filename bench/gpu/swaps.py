"""From request to first token, wherever the weights are: of llama.cpp, and of a PyTorch engine that sleeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.gpu import models
from bench.gpu.plan import Column, rounds, swap_case
from bench.gpu.stage import STAND_IN, Figures, Skipped, Stage, medians
from bench.gpu.suspend import Driver, Refused, users
from bench.processes import tree
from bench.swap import alone, calls
from bench.swap.alone import Own
from bench.swap.plane import Plane
from bench.warm.holder import Holder
from bench.warm.rounds import MAX_COLD
from stoker.fleet.warm import pages

SMALL = "small"
"""What is loaded when the measured model is asked for."""


def llama(stage: Stage) -> None:
    found = stage.models()[: stage.plan.swapped]
    small = models.gguf_path(stage.folder, stage.plan.llama[0]).with_name("small.gguf")
    if not small.exists():
        models.write_small(small)
    serves = [stage.llama(_name(number), path) for number, (_, path) in enumerate(found)]
    with stage.plane([*serves, stage.llama(SMALL, small)]) as plane:
        plane.switch(SMALL)
        own_small = alone.measure(plane.command(SMALL), SMALL, stage.folder / "alone.log")
        for number, (model, path) in enumerate(found):
            for column in (Column.COLD, Column.CACHED):
                work = partial(
                    _of_file, stage, plane, _name(number), path.absolute, own_small, stage.computes_on, column
                )
                stage.attempt(swap_case(model, column), work)
            suspend = partial(_suspended, stage, plane, _name(number))
            stage.attempt(swap_case(model, Column.SUSPENDED), suspend)


def torch(stage: Stage) -> None:
    """Asleep, with `sleep_level`; then without it suspended, cold and from the page cache. The file is written last."""
    names = list(map(_name, range(len(stage.plan.torch))))
    folders = [_folder(stage, number, has_file=False) for number in range(len(names))]
    remark = STAND_IN if stage.is_stand_in else ""
    serves = [stage.torch(name, folder, "sleep_level = 1") for name, folder in zip(names, folders, strict=True)]
    room = 2 * sum(model.size for model in stage.plan.torch) // 2**20 + 1024
    with stage.plane(serves, warm=f'[warm]\nmemory = "{room}MiB"\npredict = false\n') as plane:
        for name, model, other in zip(names, stage.plan.torch, reversed(names), strict=True):
            stage.attempt(swap_case(model, Column.ASLEEP), partial(_asleep, stage, plane, name, other, remark))
    width = stage.plan.width
    small = models.write_folder(stage.folder, SMALL, 4 * width.wide * width.hidden, width, has_file=False)
    serves = [stage.torch(name, folder) for name, folder in zip(names, folders, strict=True)]
    with stage.plane([*serves, stage.torch(SMALL, small)]) as plane:
        for name, model in zip(names, stage.plan.torch, strict=True):
            stage.attempt(swap_case(model, Column.SUSPENDED), partial(_suspended, stage, plane, name))
        plane.switch(SMALL)
        own_small = alone.measure(plane.command(SMALL), SMALL, stage.folder / "alone.log")
        for number, model in enumerate(stage.plan.torch):
            if model.has_file:
                file = partial(_file, stage, number)
                for column in (Column.COLD, Column.CACHED):
                    work = partial(_of_file, stage, plane, names[number], file, own_small, remark, column)
                    stage.attempt(swap_case(model, column), work)


def _folder(stage: Stage, number: int, has_file: bool) -> Path:
    plan = stage.plan
    size = plan.torch[number].size
    return models.write_folder(stage.folder, _name(number), size, plan.width, has_file, spare=plan.spare)


def _file(stage: Stage, number: int) -> Path:
    return _folder(stage, number, has_file=True) / "weights.bin"


def _name(number: int) -> str:
    return f"model{number}"


def _of_file(
    stage: Stage, plane: Plane, name: str, file: Callable[[], Path], small: Own, remark: str, column: Column
) -> tuple[Figures, str]:
    """`file()`: the weights, which it may have to write first."""
    path, found = file(), []
    for _ in range(rounds(stage.plan, column)):
        plane.switch(SMALL)
        if column is Column.COLD:
            pages.evict(str(path))
            share = pages.cached_share(str(path))
            if share is None or share > MAX_COLD:
                raise Skipped(f"{path.parent} keeps its files in memory: a cold start needs a directory on a disk")
            found.append(swapped(plane, name))
        else:
            with Holder(path):
                found.append(swapped(plane, name))
    figures = medians(found)
    if column is Column.CACHED:
        own = alone.measure(plane.command(name), name, stage.folder / "alone.log", patience=120)
        figures["own_s"] = figures["switch_s"] - own.healthy - small.stop
    size = path.stat().st_size
    return {**figures, "load_gb_s": size / 1e9 / max(figures["start_s"], 1e-9)}, remark


def swapped(plane: Plane, name: str) -> dict[str, float]:
    """One swap to a serve: its phases as Stoker tells them, and then its first token. Seconds."""
    switch = plane.switch(name)
    phases = {f"{phase}_s": float(took) for phase, took in switch["phases"].items() if took is not None}
    first = plane.first_token(name)
    seconds = float(switch["seconds"])
    return {**phases, "switch_s": seconds, "first_token_s": first, "whole_s": seconds + first}


def _asleep(stage: Stage, plane: Plane, name: str, other: str, remark: str) -> tuple[Figures, str]:
    found = []
    plane.switch(name)
    for _ in range(rounds(stage.plan, Column.ASLEEP)):
        plane.switch(other)
        if plane.serve(name)["temperature"] != "asleep":
            raise RuntimeError(f"{name} was stopped and not put to sleep: {plane.serve(name)['last_error']}")
        found.append(swapped(plane, name))
    return medians(found), remark


def _suspended(stage: Stage, plane: Plane, name: str) -> tuple[Figures, str]:
    """The engine by itself, with the command that Stoker ran: Stoker does not suspend."""
    try:
        driver = Driver()
    except Refused as refused:
        raise Skipped(str(refused)) from refused
    plane.switch(name)
    command = plane.command(name)
    plane.unload_all()
    found = []
    with alone.running(command, stage.folder / "alone.log", patience=120) as engine:
        before = _answer(engine.command, name)
        for _ in range(rounds(stage.plan, Column.SUSPENDED)):
            held, family = stage.probe.by_process(), tree(engine.child.pid)
            pids = [pid for pid in family if pid in held] if held is not None else users(family)
            if not pids:
                raise Skipped("the engine is not known to hold memory of a GPU")
            free = _free(stage)
            suspend = driver.suspend(pids)
            freed = _free(stage) - free
            resume = driver.resume(pids)
            first = calls.chat(engine.command.port, name, engine.command.key).first
            figures = {"suspend_s": suspend, "freed_bytes": freed, "resume_s": resume, "first_token_s": first}
            found.append({**figures, "whole_s": resume + first})
        if _answer(engine.command, name) != before:
            raise RuntimeError("it answers otherwise after it was suspended")
    return medians(found), "the driver alone, without Stoker"


def _free(stage: Stage) -> float:
    return float(sum(device.free or 0 for device in stage.probe.devices()))


def _answer(command: alone.Command, name: str) -> str:
    body = {"model": name, "max_tokens": 16, "temperature": 0, "messages": [{"role": "user", "content": "Say hello."}]}
    status, answer = calls.post(command.port, "/v1/chat/completions", body, command.key)
    if status != 200:
        raise RuntimeError(f"status {status}: {answer[:300].decode(errors='replace')}")
    return str(json.loads(answer)["choices"][0]["message"]["content"])
