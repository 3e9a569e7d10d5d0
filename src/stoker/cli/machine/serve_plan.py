"""Which serves a machine can have: a slot and a context for each model file. Shared by `init` and the importers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stoker.cli.machine.discover import Gpu, InstalledEngine, ModelFile

if TYPE_CHECKING:
    from stoker.domain.serve import Slot

PARALLEL = 2
CONTEXT = 4096
"""Tokens, for a model whose context cannot be computed."""


@dataclass(frozen=True, slots=True)
class MachineInventory:
    """What `init` works from. `demo`: the models are the shipped ones, because no other was found."""

    gpus: Sequence[Gpu]
    models: Sequence[ModelFile]
    engines: Sequence[InstalledEngine]
    vault: Path
    demo: bool = False
    unusable: Sequence[str] = ()
    """One sentence for each file that is named as a model but is none."""
    left_out: Sequence[str] = ()
    """Models of other programs that are not offered: which, and why."""
    in_main_memory: Sequence[str] = ()
    """GPUs without memory of their own, each as its vendor and PCI address."""


@dataclass(frozen=True, slots=True)
class PlannedServe:
    """One `[[serve]]` of the file."""

    name: str
    model: ModelFile
    slot: str
    context: int | None = None
    """None: none could be computed. `problem` says why."""
    trained: int | None = None
    problem: str = ""
    parallel: int = PARALLEL


class GpuSlot(NamedTuple):
    """The slot of one GPU."""

    name: str
    word: int | str
    """Names the GPU in `devices`: its number, or `amd:0` on a machine with GPUs of several vendors."""
    gpu: Gpu


class ServePlanner:
    """Deals model files out to the slots of a machine, and finds the context that each can have."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        from stoker.domain.serve import Serve, Slot
        from stoker.engines.masks import can_use
        from stoker.engines.registry import DEFAULT
        from stoker.fleet.memory.devices import Device
        from stoker.fleet.memory.host import host_memory

        self._devices = [Device(gpu.index, gpu.uuid, gpu.name, gpu.vendor, gpu.memory, gpu.memory) for gpu in gpus]
        apis = DEFAULT.computes_with(Serve(""))
        usable = [slot for slot in gpu_slots(gpus) if can_use(slot.gpu.vendor, apis)] or gpu_slots(gpus)
        self._slots = [Slot(slot.name, (str(slot.word),)) for slot in usable] or [Slot("cpu")]
        self._memory = host_memory()
        self._count = 0

    def next_slot(self) -> Slot:
        """The slot of the next serve: each that the default engine can use, in turn."""
        self._count += 1
        return self._slots[(self._count - 1) % len(self._slots)]

    def plan(
        self,
        name: str,
        model: ModelFile,
        wanted: int | None = None,
        parallel: int = PARALLEL,
        env: Mapping[str, str] | None = None,
    ) -> PlannedServe:
        """A serve in the next slot, with the largest context that fits, or `wanted` tokens. Reads the model's header.

        1. `wanted` tokens fit for each of `parallel` requests -> so many of both
        2. they fit for one request at a time -> one at a time
        3. they do not fit -> the largest context that fits one request at a time
        """
        from stoker.domain.serve import Serve
        from stoker.fleet.memory.fit.check import choose_context

        slot = self.next_slot()
        serve = Serve(
            name, model=str(model.path), slot=slot.name, parallel=parallel, auto_context=True, env=dict(env or {})
        )
        choice = choose_context(serve, slot, self._devices, self._memory)
        if wanted is not None and (choice.context or 0) < wanted and parallel > 1:
            serve = replace(serve, parallel=1)
            choice = choose_context(serve, slot, self._devices, self._memory)  # 2, 3
        context = choice.context if wanted is None or choice.context is None else min(wanted, choice.context)
        return PlannedServe(name, model, slot.name, context, choice.trained, choice.problem, serve.parallel)


def plan_serves(found: MachineInventory) -> list[PlannedServe]:
    """A serve for each model, each with the largest context that fits. Reads the models' headers."""
    planner = ServePlanner(found.gpus)
    names: set[str] = set()
    planned = []
    for model in found.models:
        name = unused_name(model.name or slug(model.path.name), names)
        names.add(name)
        planned.append(planner.plan(name, model))
    return planned


def gpu_slots(gpus: Sequence[Gpu]) -> list[GpuSlot]:
    """A slot for each GPU. Numbers count by vendor, so with several vendors they do not say which GPU is meant."""
    if len({gpu.vendor for gpu in gpus}) < 2:
        return [GpuSlot(f"gpu{gpu.index}", gpu.index, gpu) for gpu in gpus]
    return [GpuSlot(f"{gpu.vendor}{gpu.index}", f"{gpu.vendor}:{gpu.index}", gpu) for gpu in gpus]


def slug(text: str) -> str:
    """A serve name from a path or model id: its last part, lower case, without ending, quantisation and shard."""
    name = text.rstrip("/").rsplit("/", 1)[-1].lower().removesuffix(".gguf")
    name = re.sub(r"-\d{5}-of-\d{5}$", "", name)
    name = re.sub(r"[-_.](i?q\d[a-z0-9_]*|bf16|f16|f32|mxfp4)$", "", name)
    return re.sub(r"[^a-z0-9._-]+", "-", name).strip("-._") or "model"


def unused_name(name: str, taken: Collection[str]) -> str:
    """`name`, or with a number behind it if it is taken, or reserved for routing."""
    if name not in taken and not name.startswith("auto"):
        return name
    return next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
