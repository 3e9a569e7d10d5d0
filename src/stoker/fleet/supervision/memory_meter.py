"""Measures memory, outside the event loop: what serves hold, when memory is free again, whether a serve will fit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from stoker.blocking import in_own_thread
from stoker.domain import figures
from stoker.domain.errors import StartFailed, UnreadableModel
from stoker.domain.protocols import Clock
from stoker.domain.serve import Driver, Serve, Slot
from stoker.engines import masks
from stoker.engines.registry import engine_of
from stoker.fleet.memory.devices import Accounting, DeviceProbe, chosen
from stoker.fleet.memory.engaged import NO_DEVICES, EngagedDevices, engaged
from stoker.fleet.memory.host import host_memory, process_memory
from stoker.fleet.memory.ledger import MemorySize, Short, SizeSource, open_ledger, would_fit
from stoker.fleet.memory.measure import MemoryMeasurement, Snapshot, measure, snapshot, wait_until_free

READ_WITHIN = 60.0
"""Seconds for the header of a model."""
FREE_WITHIN = 10.0
"""Seconds to wait for the memory of a stopped serve; after that the next start is tried nevertheless."""


class MemoryMeter:
    """`slot_of(name)`: the slot as configured now; None: no slot has that name."""

    def __init__(
        self, probe: DeviceProbe, clock: Clock, slot_of: Callable[[str | None], Slot | None], log: logging.Logger
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._slot_of = slot_of
        self._log = log

    async def measure(self, serve: Serve, pids: Collection[int]) -> MemoryMeasurement:
        """The memory of the serve's slot that these processes hold. May be cancelled at any time."""
        return await asyncio.to_thread(self._measure, serve, pids)

    def weight(self, serve: Serve, pids: Collection[int]) -> MemorySize:
        """What these processes hold of its slot. Blocks for milliseconds."""
        return self._measure(serve, pids).weight

    def devices(self, serve: Serve, pids: Collection[int], said: str) -> EngagedDevices:
        """The devices that the serve has to use, and those that it uses. `said`: its fact `devices`. Blocks."""
        slot = self._slot_of(serve.slot)
        present = self._probe.devices()
        if slot is None or not slot.devices or not present or masks.chooses_itself(serve, slot.devices):
            return NO_DEVICES
        from stoker.fleet.memory.fit import check

        tuning = serve.tuning
        count = (tuning.tensor_parallel or 1) * (tuning.pipeline_parallel or 1) if serve.cmd is None else None
        wanted = check.devices_for(serve, slot, present)
        if "tensor_parallel" in engine_of(serve.engine).options and count is not None:
            wanted = wanted[:count]
        return engaged(
            wanted, chosen(present, slot.devices), present, said, self._probe.by_process(), pids,
            is_whole_slot=all(any(device.is_named(word) for device in present) for word in slot.devices),
            may_miss=self._probe.misses(),
        )  # fmt: skip

    def with_choices(self, serve: Serve) -> Serve:
        """The serve as it is started: see `check.with_choices`.

        Blocks while it reads the header of the weights. Raises StartFailed `no_context` if no context fits.
        """
        if not serve.has_open_choices:
            return serve
        from stoker.fleet.memory.fit import check

        try:
            serve = check.with_choices(serve, self._slot_of(serve.slot), self._probe.devices(), host_memory())
        except UnreadableModel:
            return serve  # the engine will report what is wrong with the file
        if serve.context_problem and serve.auto_context:
            raise StartFailed(serve.context_problem, code="no_context")
        return serve

    async def snapshot(self) -> Snapshot:
        """How much memory is free and which processes hold it: taken before a serve is stopped."""
        return await asyncio.to_thread(snapshot, self._probe)

    async def wait_until_free(self, name: str, pids: Collection[int], before: Snapshot) -> None:
        """Wait until the memory that `pids` held is free, FREE_WITHIN seconds at most. Logs what is not freed."""
        freed = await wait_until_free(self._probe, pids, before, self._clock, FREE_WITHIN)
        if freed.missing or freed.holders:
            self._log.warning("serve %s: %s", name, freed)

    async def memory_problems(self, serve: Serve, ours: Collection[int]) -> list[str]:
        """Whether the serve will fit. Problems that a `fallback` can answer for are raised, the others are returned.

        Raises StartFailed `startup_memory` if it is too large, and `unsupported_quantization` if its device lacks its
        number format. Returns one sentence for each other problem; empty if it fits, or if that is unknown.

        `ours`: processes that will have stopped before the start; their memory counts as free.
        """
        if serve.cmd is not None or serve.driver is not Driver.PROCESS or not serve.model.startswith("/"):
            return []
        try:
            async with asyncio.timeout(READ_WITHIN):
                return await in_own_thread(partial(self._memory_problems, serve, ours))
        except TimeoutError:
            return [f"the model of serve '{serve.name}' could not be read within {READ_WITHIN:g} s: {serve.model}"]

    async def as_started(self, serve: Serve) -> Serve:
        """As `with_choices`, beside the event loop. Raises StartFailed `cannot_start` if the model cannot be read."""
        if not serve.has_open_choices:
            return serve
        try:
            async with asyncio.timeout(READ_WITHIN):
                return await in_own_thread(partial(self.with_choices, serve))
        except TimeoutError:
            text = f"the model of serve '{serve.name}' could not be read within {READ_WITHIN:g} s: {serve.model}"
            raise StartFailed(text, code="cannot_start") from None

    def _memory_problems(self, serve: Serve, ours: Collection[int]) -> list[str]:
        from stoker.fleet.memory.fit import check  # 2 MB that only a swap needs
        from stoker.fleet.memory.fit.estimate import FitAnswer
        from stoker.fleet.memory.fit.rules import RemarkKind

        serve = self.with_choices(serve)
        slot = self._slot_of(serve.slot)
        devices = check.devices_for(serve, slot, self._probe.devices())
        accounting = self._probe.by_process() if devices else None
        credited = check.credited(devices, accounting, ours)
        theirs = process_memory(ours)
        if engine_of(serve.engine).memory.pages_cache:  # one request has to fit
            serve = replace(serve, parallel=1)
        try:
            report = check.check_fit(serve, credited, host_memory(credit=theirs.anonymous if theirs is not None else 0))
        except UnreadableModel:
            return []  # the engine will report what is wrong with the file
        next_step = f"`stoker fit {serve.name}` says what would fit"
        if report.fit.answer is FitAnswer.TOO_LARGE:
            raise StartFailed(f"{'; '.join(report.problems)}; {next_step}", code="startup_memory")
        if any(remark.kind is RemarkKind.UNSUPPORTED for remark in report.remarks):
            raise StartFailed(f"{'; '.join(report.problems)}; {next_step}", code="unsupported_quantization")
        if credited:
            books = open_ledger(slot or Slot(serve.name), credited, (), accounting, ours, _commands(accounting, ours))
            fits = would_fit(books, serve.name, MemorySize(report.needed, SizeSource.ESTIMATED))
            if isinstance(fits, Short):
                by = f", held by {' and '.join(fits.holders)}" if fits.holders else ""
                text = f"serve '{serve.name}' is short of {figures.size(fits.bytes)} on its devices{by}"
                text = f"{text}; {next_step}, and `stoker top` which serves hold memory"
                raise StartFailed(text, code="startup_memory")
        return list(report.problems)

    def _measure(self, serve: Serve, pids: Collection[int]) -> MemoryMeasurement:
        slot = self._slot_of(serve.slot)
        devices = chosen(self._probe.devices(), slot.devices if slot is not None else ())
        return measure(pids, devices, self._probe.by_process() if devices else None)


def _commands(accounting: Accounting | None, ours: Collection[int]) -> dict[int, str]:
    """The program name of each foreign process that holds device memory."""
    import psutil

    programs = {}
    for pid in accounting or {}:
        if pid not in ours:
            with contextlib.suppress(psutil.Error):
                programs[pid] = psutil.Process(pid).name()
    return programs
