"""`context = "auto"`: the largest context that fits. Counted from sizes that stay the same while Stoker runs.

The memory is that of the slot's budget: `memory` of the serve or of its slot, else 95 % of each device. In main memory
it is half of it, so that there is room for everything else. What happens to be free does not count: a restart finds
the same context.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stoker.blocking import StillBlocked, waited_for
from stoker.domain import figures
from stoker.domain.errors import UnreadableModel
from stoker.domain.serve import Serve, Slot, joined_slot
from stoker.fleet.memory import host as memory_of_host
from stoker.fleet.memory.device import Device, DeviceProbe
from stoker.fleet.memory.fit import check
from stoker.fleet.memory.fit.estimate import FitPlan, estimate, largest_context
from stoker.fleet.memory.fit.shape import Shape
from stoker.fleet.memory.host import HostMemory
from stoker.fleet.memory.ledger import USABLE_SHARE

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
        shape = check.read(serve.model) if shape is None else shape
    except UnreadableModel as error:
        return ContextChoice(None, problem=f'{name} has `context = "auto"`, and {error.message}')  # 1
    used = check.devices_for(serve, slot, devices)
    plan = replace(check.plan_of(serve, shape, len(used)), context=None)
    host = int(main.total * USABLE_SHARE) if main.total is not None else None
    declared = _declared(serve, slot)
    room = declared if not plan.devices else _per_device(used, declared)
    if not plan.devices and room is None and host is not None and main.total is not None:
        room = int(main.total * HOST_SHARE)
    if not plan.devices and room is not None and host is not None:
        room = min(room, host)
    if room is None:
        advice = "give its size as `memory` of the slot, or set `context`"
        return ContextChoice(
            None, shape.context, f'{name} has `context = "auto"`, and memory is unknown: {advice}'
        )  # 1
    least = min(MIN_CONTEXT, shape.context or MIN_CONTEXT)
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


def _declared(serve: Serve, slot: Slot | None) -> int | None:
    """The budget of the configuration: the serve's own, else its slot's."""
    return serve.memory if serve.memory is not None else slot.memory if slot is not None else None


def _per_device(devices: Sequence[Device], declared: int | None) -> int | None:
    totals = [device.total for device in devices if device.total is not None]
    rooms = [int(min(totals) * USABLE_SHARE)] if len(totals) == len(devices) else []
    rooms += [declared // len(devices)] if declared is not None else []
    return min(rooms, default=None)


def _needs(shape: Shape, plan: FitPlan, context: int) -> int:
    return estimate(shape, replace(plan, context=context)).host.total
