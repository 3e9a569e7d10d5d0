"""Will this serve fit, before anything is started? Reads the model's headers; starts and changes nothing.

`context = "auto"`: the largest context that fits. Counted from sizes that stay the same while Stoker runs.

The memory is that of the slot's budget: `memory` of the serve or of its slot, else 95 % of each device. In main memory
it is half of it, so that there is room for everything else. What happens to be free does not count: a restart finds
the same context.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stoker.blocking import StillBlocked, waited_for
from stoker.domain import figures
from stoker.domain.errors import UnreadableModel
from stoker.domain.serve import AUTO_LAYERS, SPECULATIVE_WORDS, Serve, Slot, joined_slot
from stoker.engines.masks import can_use
from stoker.engines.registry import engine_of
from stoker.fleet.memory import host as memory_of_host
from stoker.fleet.memory.devices import Accounting, Device, DeviceProbe, chosen
from stoker.fleet.memory.fit import gguf, hf_config, rules, trained
from stoker.fleet.memory.fit.estimate import (
    GIB,
    MIB,
    Estimate,
    FitAnswer,
    FitPlan,
    MemoryFit,
    Need,
    Proposal,
    Shape,
    estimate,
    fewest_cpu_moe,
    judge,
    largest_context,
    largest_parallel,
    needed,
    proposals,
    worst,
)
from stoker.fleet.memory.fit.rules import Remark, RemarkKind
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
    proposals: tuple[Proposal, ...] = ()
    """Settings with which it fits, if it is too large, the cheapest first."""
    beside: tuple[tuple[str, int], ...] = ()
    """What is loaded beside the weights, and its bytes, which are among theirs."""
    caution: str = ""
    """What comes of a context above what the model was trained for; empty: it is not above it."""
    crowding: str = ""
    """What the engine may fill main memory with later on; empty: there is room for it."""

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
    """Which of the machine's devices the serve would use; none: main memory. Of devices whose drivers do not show their
    size, each has its part of the `memory` of serve or slot.

    1. those that its slot names, all without names
    2. of these those that its engine is built for, if that is known and any are
    3. else those of one vendor, which most builds are for: that with the most memory, unless the slot names the vendors
    """
    if engine_of(serve.engine).on_processors(serve):
        return []
    words = slot.devices if slot is not None else ()
    named = chosen(devices, words)  # 1
    if (declared := _declared(serve, slot)) is not None:
        each = declared // max(1, len(named))
        named = [replace(one, total=each) if one.total is None else one for one in named]
    apis = engine_of(serve.engine).computes_with(serve)
    if apis is not None:
        return [device for device in named if can_use(device.vendor, apis)] or named  # 2
    vendors = dict.fromkeys(device.vendor for device in named)
    if len(vendors) < 2 or not all(word.isdigit() for word in words):
        return named
    largest = max(vendors, key=lambda vendor: sum(one.total or 0 for one in named if one.vendor == vendor))
    return [device for device in named if device.vendor == largest]  # 3


def why_unused(serve: Serve, slot: Slot | None, devices: Sequence[Device]) -> str:
    """Which of the devices that its slot names are not counted, and why; empty: all are."""
    used = devices_for(serve, slot, devices)
    counted = {one.uuid for one in used}
    named = chosen(devices, slot.devices if slot is not None else ())
    unused = [f"{one.vendor}:{one.index} ({one.name})" for one in named if one.uuid not in counted]
    if not used or not unused:
        return ""
    title, apis = engine_of(serve.engine).title, engine_of(serve.engine).computes_with(serve)
    if apis is not None:
        return f"{', '.join(unused)}: {title} as it is built here ({', '.join(sorted(apis))}) cannot use it"
    return (
        f"{', '.join(unused)}: most builds of {title} use devices of one vendor only; if yours uses them together, "
        "name them in `devices` of the slot, like `nvidia:0`"
    )


def plan_of(serve: Serve, shape: Shape, devices: int) -> FitPlan:
    """How the serve would run this model on a slot of so many devices. Reads what is loaded beside it.

    `n_cpu_moe = "auto"` counts as 0: see `with_experts`. Raises UnreadableModel.
    """
    tuning = serve.tuning
    context, used = serve.context, devices
    if engine_of(serve.engine).memory.deals_layers:
        if context is None and shape.context is not None:
            context = max(1, shape.context // serve.parallel)  # it deals the trained length out
        if serve.gpu_layers == 0:
            used = 0
    elif devices:
        used = (tuning.tensor_parallel or 1) * (tuning.pipeline_parallel or 1)
    draft = tuning.speculative if tuning.speculative not in SPECULATIVE_WORDS else None
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
        cpu_moe=len(shape.layers) if tuning.cpu_moe else max(0, tuning.n_cpu_moe or 0),
        predicts=tuning.speculative in SPECULATIVE_WORDS and shape.has_predictors,
        draft=read(draft) if draft is not None and os.path.exists(draft) else None,
        projector=_bytes_of(tuning.mmproj),
        adapters=sum(_bytes_of(path) for path in tuning.adapters),
        kv_offload=tuning.kv_offload or 0,
    )


def _bytes_of(path: str | None) -> int:
    """Of a file, or of all files in a directory; 0: there is none, which the start reports."""
    if path is None:
        return 0
    if os.path.isdir(path):
        return sum(entry.stat().st_size for entry in os.scandir(path) if entry.is_file())
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _beside(plan: FitPlan, shape: Shape) -> tuple[tuple[str, int], ...]:
    named = (
        ("draft model", plan.draft.weights if plan.draft is not None else 0),
        ("layers that predict further tokens", sum(la.weights for la in shape.predictors) if plan.predicts else 0),
        ("projector", plan.projector),
        ("adapters", plan.adapters),
    )
    return tuple((name, size) for name, size in named if size)


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
    fraction = serve.tuning.memory_fraction
    plan = plan_of(serve, shape, len(devices))
    used = devices[: plan.devices]
    dealt = _room(used, plan, fraction)
    if serve.tuning.n_cpu_moe == AUTO_LAYERS and dealt is not None:
        plan = replace(plan, cpu_moe=_experts(shape, plan, dealt, _host_room(main, used)))
    problems = []
    if plan.devices > len(devices):
        wanted = figures.counted(plan.devices, "device")
        problems.append(f"serve '{serve.name}' asks for {wanted}, but its slot has {len(devices)}")
    found = estimate(shape, plan)
    shares = _shares(used, plan, found, fraction)
    rows = [_row(device, found, fraction, share) for device, share in zip(used, shares, strict=True)]
    if not rows or found.host.weights or found.host.cache:
        rows.append(_main(found.host, _less(main, used, rows)))
    verdict = worst([row.fit for row in rows])
    for device in used:
        problems += _share_problems(device, fraction)
    remarks = [
        remark
        for device in used[:1]
        for remark in rules.remarks(rules.subject(device, shape, plan.engine, plan.quantization, plan.kv_offload))
    ]
    problems += [
        f"{remark.says} ({remark.date}, {remark.source})" for remark in remarks if remark.kind is RemarkKind.UNSUPPORTED
    ]
    if verdict.answer is FitAnswer.TOO_LARGE:
        where = next(row.place for row in rows if row.fit is verdict)
        problems.insert(0, f"serve '{serve.name}' is too large by {figures.size(verdict.short)} for {where}")
    room = dealt if dealt is not None and used else verdict.room
    is_short = room is not None and bool(verdict.short)
    return FitReport(
        serve.name, shape, plan, found, tuple(rows), verdict, tuple(problems), tuple(remarks),
        context=largest_context(shape, plan, room) if room is not None else None,
        parallel=largest_parallel(shape, plan, room) if room is not None else None,
        smaller=_smaller(shape, plan, used, room) if room is not None and is_short else None,
        caution=trained.caution(serve, most) if (most := trained.excess(serve)) is not None else "",
        proposals=tuple(proposals(shape, plan, room, _host_room(main, used))) if room is not None and is_short else (),
        beside=_beside(plan, shape), crowding=_crowding(serve, found, main),
    )  # fmt: skip


def _crowding(serve: Serve, found: Estimate, main: HostMemory) -> str:
    """No reason not to start: prompts fill that cache one after the other, and most people never fill it."""
    most = engine_of(serve.engine).prompt_cache(serve)
    if main.available is None or not most:
        return ""
    left = max(0, main.available - found.host.total)
    if most <= left:
        return ""
    half = left // 2
    size = f"{half // GIB}GiB" if half >= GIB else f"{half // MIB}MiB"
    return (
        f"its cache of earlier prompts may grow to {figures.size(most)} of main memory, where {figures.size(left)} are "
        f'left: `kv_offload = "{size}"` limits it'
    )


def _experts(shape: Shape, plan: FitPlan, room: int, host_room: int | None) -> int:
    """`n_cpu_moe = "auto"`: as few layers as needed; all, if not even that is enough."""
    fewest = fewest_cpu_moe(shape, plan, room, host_room)
    return fewest if fewest is not None else sum(bool(layer.experts) for layer in shape.layers) and len(shape.layers)


def _host_room(main: HostMemory, devices: Sequence[Device]) -> int | None:
    """Bytes of main memory that a model may use beside what it has on these devices."""
    if main.total is None:
        return None
    theirs = sum(device.total or 0 for device in devices if device.is_unified)
    return max(0, int((main.total - theirs) * USABLE_SHARE))


def _rooms(devices: Sequence[Device], fraction: float | None) -> list[int] | None:
    """Bytes of each that may be used; None: one of them is not known."""
    totals = [device.total for device in devices if device.total is not None]
    return [int(total * (fraction or USABLE_SHARE)) for total in totals] if len(totals) == len(devices) else None


def _room(devices: Sequence[Device], plan: FitPlan, fraction: float | None = None) -> int | None:
    """Bytes that each device may use, as if they were all alike: of an engine that deals layers out by size the mean,
    of one that shares each layer the smallest. None: unknown, or main memory.
    """
    rooms = _rooms(devices, fraction)
    if not rooms:
        return None
    return sum(rooms) // len(rooms) if engine_of(plan.engine).memory.deals_layers else min(rooms)


def _shares(devices: Sequence[Device], plan: FitPlan, found: Estimate, fraction: float | None) -> list[float]:
    """How much more or less than the mean of weights and cache each device gets: llama.cpp deals them out by what
    each has left. 1: as much.
    """
    rooms = _rooms(devices, fraction)
    if not rooms or found.device is None or not engine_of(plan.engine).memory.deals_layers:
        return [1.0] * len(devices)
    left = [max(0, room - found.device.overhead) for room in rooms]
    mean = sum(left) / len(left)
    return [one / mean for one in left] if mean else [1.0] * len(devices)


def _row(device: Device, found: Estimate, fraction: float | None, share: float) -> FitRow:
    mean = found.device or Need()
    need = Need(int(mean.weights * share), int(mean.cache * share), mean.overhead)
    verdict = judge(need.total, device.total, fraction or USABLE_SHARE, device.free if device.is_unified else None)
    place = f"{device.vendor} {device.index}: {device.name}" if device.vendor else device.name
    return FitRow(place, need, verdict, device.free, device)


def _less(main: HostMemory, used: Sequence[Device], rows: Sequence[FitRow]) -> HostMemory:
    """What is left of main memory beside what devices take that compute in it."""
    taken = sum(row.need.total for device, row in zip(used, rows, strict=True) if device.is_unified)
    if not taken:
        return main
    total, available = (None if size is None else max(0, size - taken) for size in (main.total, main.available))
    return HostMemory(total, available, main.limit)


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


READ_WITHIN = 3.0
"""Seconds for the header of one model."""
MIN_CONTEXT = 4096
"""Tokens; less only for a model that was trained for less."""
HOST_SHARE = 0.5
"""Share of main memory that a model may take; up to 95 % if not even MIN_CONTEXT tokens fit otherwise."""


@dataclass(frozen=True, slots=True)
class ContextChoice:
    """`context` is None exactly if there is a `problem`: one sentence, with what to do."""

    context: int | None
    trained: int | None = None
    problem: str = ""


def with_contexts(serves: Iterable[Serve], slots: Iterable[Slot], probe: DeviceProbe) -> tuple[Serve, ...]:
    """The serves, each `context = "auto"` replaced by a number. Reads headers of models, and blocks meanwhile.

    A serve whose weights are missing, or whose file system does not answer, stays as it is: its context is chosen when
    it starts. A serve with too little
    memory gets a `context_problem`.
    """
    serves = tuple(serves)
    if not any(serve.auto_context for serve in serves):
        return serves
    by_name = {slot.name: slot for slot in slots}
    devices, main = probe.devices(), memory_of_host.host_memory()

    def chosen(serve: Serve) -> Serve:
        slot = joined_slot(serve.slot or "", by_name)
        try:
            return waited_for(
                partial(with_context, serve, slot, devices, main), f"the model of serve '{serve.name}'", READ_WITHIN
            )
        except StillBlocked:
            return replace(serve, context=None, context_problem="")

    return tuple(chosen(serve) if serve.auto_context else serve for serve in serves)


def with_context(serve: Serve, slot: Slot | None, devices: Sequence[Device], main: HostMemory) -> Serve:
    """See `with_contexts`, for one serve. `devices`: all of the machine's."""
    if not os.path.exists(serve.model):
        return replace(serve, context=None, context_problem="")
    choice = choose_context(serve, slot, devices, main)
    return replace(serve, context=choice.context, context_problem=choice.problem)


def choose_context(
    serve: Serve, slot: Slot | None, devices: Sequence[Device], main: HostMemory, shape: Shape | None = None
) -> ContextChoice:
    """The largest context with which `parallel` requests at once fit, at most what the model was trained for.

    1. unreadable model, or unknown memory -> a problem
    2. at least MIN_CONTEXT tokens fit -> as many as fit
    3. on processors, MIN_CONTEXT fit into 95 % of main memory -> MIN_CONTEXT
    4. otherwise -> a problem
    """
    name = f"serve '{serve.name}'"
    try:
        shape = read(serve.model) if shape is None else shape
    except UnreadableModel as error:
        return ContextChoice(None, problem=f'{name} has `context = "auto"`, and {error.message}')  # 1
    used = devices_for(serve, slot, devices)
    plan = replace(plan_of(serve, shape, len(used)), context=None)
    host = _host_room(main, used if plan.devices else ())
    declared = _declared(serve, slot)
    room = declared if not plan.devices else _per_device(used, declared, plan)
    if not plan.devices and room is None and host is not None and main.total is not None:
        room = int(main.total * HOST_SHARE)
    if not plan.devices and room is not None and host is not None:
        room = min(room, host)
    if room is None:
        advice = "give the serve a `memory`, what it may take, or set `context`"
        return ContextChoice(
            None, shape.context, f'{name} has `context = "auto"`, and memory is unknown: {advice}'
        )  # 1
    least = min(MIN_CONTEXT, shape.context or MIN_CONTEXT)
    if serve.tuning.n_cpu_moe == AUTO_LAYERS and plan.devices:
        plan = _with_experts(shape, plan, least, room, host)
    most = shape if shape.context else replace(shape, context=MIN_CONTEXT)
    found = largest_context(most, plan, room, host if plan.devices else None)
    if found is not None and found >= least:
        return ContextChoice(found, shape.context)  # 2
    if not plan.devices and declared is None and host is not None and _needs(shape, plan, least) <= host:
        return ContextChoice(least, shape.context)  # 3
    where, more = "main memory" if not plan.devices else "the memory of its devices", ""
    if declared is not None and room == declared // max(1, plan.devices):
        where, more = f"the {figures.size(declared)} that `memory` allows", "raise `memory`, "
    text = f'{name} has `context = "auto"`, and not even {least} tokens for each of {plan.parallel} requests fit into '
    advice = f"`stoker fit {serve.name}` says what would fit; {more}lower `parallel`, or take a smaller model"
    return ContextChoice(None, shape.context, f"{text}{where}: {advice}")  # 4


COMFORTABLE_CONTEXT = 32_768
"""Tokens for which `n_cpu_moe = "auto"` makes room beside `context = "auto"`, if the model was trained for as many."""


def _with_experts(shape: Shape, plan: FitPlan, least: int, room: int, host: int | None) -> FitPlan:
    """1. few enough layers on the devices for a comfortable context  2. for the least one  3. all in main memory"""
    for context in (min(COMFORTABLE_CONTEXT, shape.context or COMFORTABLE_CONTEXT), least):
        layers = fewest_cpu_moe(shape, replace(plan, context=context), room, host)
        if layers is not None:
            return replace(plan, cpu_moe=layers)  # 1, 2
    return replace(plan, cpu_moe=len(shape.layers))  # 3


def with_choices(serve: Serve, slot: Slot | None, devices: Sequence[Device], main: HostMemory) -> Serve:
    """What is started: the serve with a number for `context = "auto"` and `n_cpu_moe = "auto"`, and without
    `speculative = "auto"`. Counted from sizes that stay the same, so each start finds the same. `devices`: all of the
    machine's. Raises UnreadableModel; blocks while it reads.
    """
    if serve.auto_context and serve.context is None:
        serve = with_context(serve, slot, devices, main)
    tuning = serve.tuning
    if not serve.has_open_choices or not os.path.exists(serve.model):
        return serve
    shape = read(serve.model)
    if tuning.speculative == "auto":
        tuning = replace(tuning, speculative="mtp" if shape.has_predictors else None)
    if tuning.n_cpu_moe == AUTO_LAYERS:
        used = devices_for(serve, slot, devices)
        plan = plan_of(serve, shape, len(used))
        room = _per_device(used[: plan.devices], _declared(serve, slot), plan) if plan.devices else None
        layers = _experts(shape, plan, room, _host_room(main, used)) if room is not None else 0
        tuning = replace(tuning, n_cpu_moe=layers)
    return replace(serve, tuning=tuning)


def _declared(serve: Serve, slot: Slot | None) -> int | None:
    """The budget of the configuration: the serve's own, else its slot's."""
    return serve.memory if serve.memory is not None else slot.memory if slot is not None else None


def _per_device(devices: Sequence[Device], declared: int | None, plan: FitPlan) -> int | None:
    room = _room(devices, plan)
    rooms = [room] if room is not None else []
    rooms += [declared // len(devices)] if declared is not None else []
    return min(rooms, default=None)


def _needs(shape: Shape, plan: FitPlan, context: int) -> int:
    return estimate(shape, replace(plan, context=context)).host.total
