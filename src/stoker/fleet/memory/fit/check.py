"""Will this serve fit, before anything is started? Reads the model's headers; starts and changes nothing."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from stoker.domain import figures
from stoker.domain.errors import UnreadableModel
from stoker.domain.serve import Serve, Slot
from stoker.engines.registry import engine_of
from stoker.fleet.memory.device import Accounting, Device, chosen
from stoker.fleet.memory.fit import gguf, hf_config, rules, trained
from stoker.fleet.memory.fit.comparison import FitAnswer, MemoryFit, judge, worst
from stoker.fleet.memory.fit.estimate import (
    Estimate,
    FitPlan,
    Need,
    estimate,
    largest_context,
    largest_parallel,
    needed,
)
from stoker.fleet.memory.fit.rules import Remark, RemarkKind
from stoker.fleet.memory.fit.shape import Shape
from stoker.fleet.memory.host import HostMemory
from stoker.fleet.memory.ledger import USABLE_SHARE
from stoker.store.files import model_file

# Bits per weight of the usual mixtures in GGUF files, largest first.
_MIXTURES = (("Q8_0", 8.5), ("Q6_K", 6.6), ("Q5_K_M", 5.7), ("Q4_K_M", 4.9), ("Q3_K_M", 3.9), ("Q2_K", 3.0))
MAIN_MEMORY = "main memory"


@dataclass(frozen=True, slots=True)
class FitRow:
    """One place that the model takes memory of."""

    place: str
    need: Need
    fit: MemoryFit
    free: int | None
    device: Device | None = None


@dataclass(frozen=True, slots=True)
class FitReport:
    """Everything that is known before a start. `problems` are reasons not to start: one sentence each."""

    serve: str
    shape: Shape
    plan: FitPlan
    estimate: Estimate
    rows: tuple[FitRow, ...]
    fit: MemoryFit
    problems: tuple[str, ...]
    remarks: tuple[Remark, ...]
    context: int | None
    """The largest that fits with this many at once; None: none, or unknown."""
    parallel: int | None
    """The most at once that fit with this context."""
    smaller: str | None
    """What else would fit, where it is too large."""
    caution: str = ""
    """What comes of a context above what the model was trained for; empty: it is not above it."""

    @property
    def needed(self) -> int:
        """Bytes over all devices, or of main memory: what counts against the slot."""
        if self.estimate.device is None:
            return self.estimate.host.total
        return self.estimate.device.total * self.plan.devices


def read(model: str) -> Shape:
    """The shape of a GGUF file or a model's directory. Raises UnreadableModel."""
    if os.path.isdir(model):
        return hf_config.read(model)
    if not os.path.isabs(model) and not os.path.exists(model):
        raise UnreadableModel(
            f"{model} is a model on the hub, and only files on disk can be examined: download it, then set `model` to "
            "its directory"
        )
    if problem := model_file.problem_of(model):
        raise UnreadableModel(problem)
    return gguf.read(model)


def devices_for(serve: Serve, slot: Slot | None, devices: Sequence[Device]) -> list[Device]:
    """Which of the machine's devices the serve would use; none: main memory."""
    if engine_of(serve.engine).on_processors(serve):
        return []
    return chosen(devices, slot.devices if slot is not None else ())


def plan_of(serve: Serve, shape: Shape, devices: int) -> FitPlan:
    """How the serve would run this model on a slot of so many devices."""
    tuning = serve.tuning
    context, used = serve.context, devices
    if engine_of(serve.engine).memory.deals_layers:
        if context is None and shape.context is not None:
            context = max(1, shape.context // serve.parallel)  # it deals the trained length out
        if serve.gpu_layers == 0:
            used = 0
    elif devices:
        used = (tuning.tensor_parallel or 1) * (tuning.pipeline_parallel or 1)
    return FitPlan(
        engine=serve.engine,
        context=context,
        parallel=serve.parallel,
        cache_type=tuning.kv_cache_type or "auto",
        batch=tuning.batched_tokens,
        devices=used,
        pipeline=tuning.pipeline_parallel or 1,
        gpu_layers=serve.gpu_layers,
        quantization=tuning.quantization,
    )


def credited(devices: Sequence[Device], accounting: Accounting | None, pids: Collection[int]) -> list[Device]:
    """The devices as they will be once `pids` are gone: a resident's own memory is credit."""
    return [
        device
        if device.free is None
        else replace(
            device, free=device.free + sum((accounting or {}).get(pid, {}).get(device.uuid) or 0 for pid in pids)
        )
        for device in devices
    ]


def check_fit(serve: Serve, devices: Sequence[Device], main: HostMemory, shape: Shape | None = None) -> FitReport:
    """Judge a serve against its slot's devices (none: main memory). Raises UnreadableModel; blocks while it reads."""
    shape = read(serve.model) if shape is None else shape
    plan = plan_of(serve, shape, len(devices))
    fraction = serve.tuning.memory_fraction
    problems = []
    if plan.devices > len(devices):
        wanted = figures.counted(plan.devices, "device")
        problems.append(f"serve '{serve.name}' asks for {wanted}, but its slot has {len(devices)}")
    found = estimate(shape, plan)
    used = devices[: plan.devices]
    rows = [_row(device, found, fraction) for device in used]
    if not rows or found.host.weights:
        rows.append(_main(found.host, main))
    verdict = worst([row.fit for row in rows])
    for device in used:
        problems += _share_problems(device, fraction)
    remarks = [
        remark
        for device in used[:1]
        for remark in rules.remarks(rules.subject(device, shape, plan.engine, plan.quantization))
    ]
    problems += [
        f"{remark.says} ({remark.date}, {remark.source})" for remark in remarks if remark.kind is RemarkKind.UNSUPPORTED
    ]
    if verdict.answer is FitAnswer.TOO_LARGE:
        where = next(row.place for row in rows if row.fit is verdict)
        problems.insert(0, f"serve '{serve.name}' is too large by {figures.size(verdict.short)} for {where}")
    room = verdict.room
    return FitReport(
        serve.name, shape, plan, found, tuple(rows), verdict, tuple(problems), tuple(remarks),
        context=largest_context(shape, plan, room) if room is not None else None,
        parallel=largest_parallel(shape, plan, room) if room is not None else None,
        smaller=_smaller(shape, plan, used, room) if room is not None and verdict.short else None,
        caution=trained.caution(serve, most) if (most := trained.excess(serve)) is not None else "",
    )  # fmt: skip


def _row(device: Device, found: Estimate, fraction: float | None) -> FitRow:
    need = found.device or Need()
    verdict = judge(need.total, device.total, fraction or USABLE_SHARE)
    place = f"{device.vendor} {device.index}: {device.name}" if device.vendor else device.name
    return FitRow(place, need, verdict, device.free, device)


def _main(need: Need, main: HostMemory) -> FitRow:
    return FitRow(MAIN_MEMORY, need, judge(need.total, main.total, most=main.available), main.available)


def _share_problems(device: Device, fraction: float | None) -> list[str]:
    """An engine with a configured share of a device refuses to start when less is free."""
    if fraction is None or device.total is None or device.free is None or fraction * device.total <= device.free:
        return []
    largest = int(device.free / device.total * 100) / 100
    return [
        f"`memory_fraction = {fraction:g}` asks for {figures.size(int(fraction * device.total))} of {device.name} and "
        f"{figures.size(device.free)} are free: set it to {largest:.2f} or less, or free the rest"
    ]


def _smaller(shape: Shape, plan: FitPlan, devices: Sequence[Device], room: int) -> str | None:
    rest = needed(
        replace(shape, weights=0, embedding=0, layers=tuple(replace(la, weights=0) for la in shape.layers)), plan
    )
    left = (room - rest) * max(1, plan.devices)
    if not shape.parameters or left <= 0:
        return None
    bits = 8 * left / shape.parameters
    if engine_of(plan.engine).memory.deals_layers:
        now = 8 * shape.weights / shape.parameters
        named = next((name for name, size in _MIXTURES if size <= bits and size < now), None)
        return f"{named} of this model would fit" if named else None
    advice = rules.suits(rules.subject(devices[0], shape, plan.engine)) if devices else None
    return f"weights of {bits:.1f} bits or less would fit; for this GPU use {advice}" if advice else None
