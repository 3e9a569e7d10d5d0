"""From request to first token, wherever the weights are: of llama.cpp, and of a PyTorch engine that sleeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.gpu import models, stand_in_driver
from bench.gpu.plan import REHEARSAL, SLEEP_LEVELS, Column, Model, rounds, swap_case
from bench.gpu.rows import Outcome
from bench.gpu.stage import STAND_IN, Figures, Skipped, Stage, medians
from bench.swap import alone
from bench.swap.alone import Own
from bench.swap.plane import Plane
from bench.warm.holder import Holder
from bench.warm.rounds import MAX_COLD
from stoker.fleet.suspend.cuda_driver import CudaDriver, Refused
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
    why = cannot_suspend() or ("" if stage.server is not None else "the embedded engine uses no GPU")
    if why:
        for model, _ in found:
            stage.keep(swap_case(model, Column.SUSPENDED), Outcome.SKIPPED, why=why)
        return
    serves = [stage.llama(_name(number), path, "sleep_level = 3") for number, (_, path) in enumerate(found)]
    with stage.plane([*serves, stage.llama(SMALL, small)], warm=pool([model for model, _ in found])) as plane:
        for number, (model, _) in enumerate(found):
            sleep = partial(asleep, stage, plane, _name(number), SMALL, "")
            stage.attempt(swap_case(model, Column.SUSPENDED), sleep)


def torch(stage: Stage) -> None:
    """Asleep, with each `sleep_level`; then without it cold and from the page cache."""
    names = list(map(_name, range(len(stage.plan.torch))))
    folders = [_folder(stage, number, has_file=False) for number in range(len(names))]
    remark = STAND_IN if stage.is_stand_in else ""
    for column, level in SLEEP_LEVELS.items():
        driver = _stand_in_driver(stage) if column is Column.SUSPENDED else None
        why = "" if column is not Column.SUSPENDED or driver is not None else cannot_suspend() or remark
        if why:
            for model in stage.plan.torch:
                stage.keep(swap_case(model, column), Outcome.SKIPPED, why=why)
            continue
        if column is Column.DROPPED:
            for number, model in enumerate(stage.plan.torch):
                if model.has_file:
                    _folder(stage, number, has_file=True)
        sleeps = f"sleep_level = {level}"
        serves = [stage.torch(name, folder, sleeps, driver) for name, folder in zip(names, folders, strict=True)]
        said = remark if driver is None else f"{remark}; {stand_in_driver.REMARK}"
        with stage.plane(serves, warm=pool(stage.plan.torch)) as plane:
            for name, model, other in zip(names, stage.plan.torch, reversed(names), strict=True):
                if column in model.columns:
                    stage.attempt(swap_case(model, column), partial(asleep, stage, plane, name, other, said))
    width = stage.plan.width
    small = models.write_folder(stage.folder, SMALL, 4 * width.wide * width.hidden, width, has_file=False)
    serves = [stage.torch(name, folder) for name, folder in zip(names, folders, strict=True)]
    with stage.plane([*serves, stage.torch(SMALL, small)]) as plane:
        plane.switch(SMALL)
        own_small = alone.measure(plane.command(SMALL), SMALL, stage.folder / "alone.log")
        for number, model in enumerate(stage.plan.torch):
            if model.has_file:
                file = partial(_file, stage, number)
                for column in (Column.COLD, Column.CACHED):
                    work = partial(_of_file, stage, plane, names[number], file, own_small, remark, column)
                    stage.attempt(swap_case(model, column), work)


def _stand_in_driver(stage: Stage) -> Mapping[str, str] | None:
    """The environment of serves that a stand-in suspends, in a rehearsal without a driver."""
    if stage.plan is not REHEARSAL or not cannot_suspend():
        return None
    return stand_in_driver.made(stage.folder / "driver")


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


def asleep(stage: Stage, plane: Plane, name: str, other: str, remark: str) -> tuple[Figures, str]:
    """`asleep_s`: from the decision to swap until it sleeps and its memory is free."""
    found = []
    plane.switch(name)
    for _ in range(rounds(stage.plan, Column.ASLEEP)):
        away = plane.switch(other)
        if plane.serve(name)["temperature"] != "asleep":
            raise RuntimeError(f"{name} was stopped and not put to sleep: {plane.serve(name)['last_error']}")
        fell = away["phases"].get("stop")
        found.append({**({"asleep_s": float(fell)} if fell is not None else {}), **swapped(plane, name)})
    return medians(found), remark


def cannot_suspend() -> str:
    """Why the driver suspends nothing here; empty: it may."""
    try:
        CudaDriver()
    except Refused as refused:
        return str(refused)
    return ""


def pool(models: Sequence[Model]) -> str:
    """A warm pool with room for all of them."""
    room = 2 * sum(model.size for model in models) // 2**20 + 1024
    return f'[warm]\nmemory = "{room}MiB"\npredict = false\n'
