"""What serves hold and what there is, asked off the loop: measuring, waiting until memory is free, will it fit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from dataclasses import replace

import psutil

from stoker.domain.errors import StartFailed
from stoker.domain.protocols import Clock
from stoker.domain.serve import Driver, Serve, Slot
from stoker.fleet.drivers import process_group
from stoker.fleet.memory.device import Accounting, DeviceProbe, chosen
from stoker.fleet.memory.freed import Snapshot, snapshot, wait_until_free
from stoker.fleet.memory.host import host_memory, process_memory
from stoker.fleet.memory.ledger import MemorySize, Short, SizeSource, open_ledger, would_fit
from stoker.fleet.memory.measure import MemoryMeasurement, measure

FREE_WITHIN = 10.0
"""Seconds that the memory of what was stopped has to come back; then the next start is tried all the same."""


class MemoryMeter:
    """`slot_of(name)` is a slot as configured now; None: no slot has that name."""

    def __init__(
        self, probe: DeviceProbe, clock: Clock, slot_of: Callable[[str | None], Slot | None], log: logging.Logger
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._slot_of = slot_of
        self._log = log

    async def measure(self, serve: Serve, pids: Collection[int]) -> MemoryMeasurement:
        """What these processes hold of the serve's slot. On cancel nothing stays."""
        return await asyncio.to_thread(self._measure, serve, pids)

    def measure_group(self, serve: Serve, leader: int) -> int | None:
        """Bytes that a process group holds of its slot; None: unknown. Blocks for milliseconds."""
        return self._measure(serve, process_group.members(leader)).weight.bytes

    def devices(self, serve: Serve, pids: Collection[int]) -> tuple[tuple[str, ...], frozenset[str] | None]:
        """The uuids of the devices that the serve is to use, and of those that it holds memory of (None: unknown).

        A slot that names no devices, or a serve that computes in main memory, is to use none in particular. Blocks.
        """
        slot = self._slot_of(serve.slot)
        present = self._probe.devices()
        if slot is None or not slot.devices or not present:
            return (), None
        from stoker.fleet.memory.fit import check

        tuning = serve.tuning
        count = (tuning.tensor_parallel or 1) * (tuning.pipeline_parallel or 1) if serve.cmd is None else None
        wanted = check.devices_for(serve, slot, present)
        if serve.engine in ("vllm", "sglang") and count is not None:
            wanted = wanted[:count]
        uuids = tuple(device.uuid for device in wanted)
        accounting = self._probe.by_process()
        if accounting is None:
            return uuids, None
        return uuids, frozenset(uuid for pid in pids for uuid in accounting.get(pid, {}))

    async def snapshot(self) -> Snapshot:
        """What is free and who holds it, before something is stopped."""
        return await asyncio.to_thread(snapshot, self._probe)

    async def wait_until_free(self, name: str, pids: Collection[int], before: Snapshot) -> None:
        """Until what `pids` held is free, FREE_WITHIN seconds at most; what does not come back is logged."""
        freed = await wait_until_free(self._probe, pids, before, self._clock, FREE_WITHIN)
        if freed.missing or freed.holders:
            self._log.warning("serve %s: %s", name, freed)

    async def memory_problems(self, serve: Serve, ours: Collection[int]) -> list[str]:
        """Why the serve will not start, one sentence each; empty if it will, or if that cannot be determined.

        Raises StartFailed `startup_memory` if it is too large and `unsupported_quantization` if its device lacks its
        number format: then its `fallback` answers. `ours`: processes that will have stopped by then; their memory
        counts as free.
        """
        if serve.cmd is not None or serve.driver is not Driver.PROCESS or not serve.model.startswith("/"):
            return []
        return await asyncio.to_thread(self._memory_problems, serve, ours)

    def _memory_problems(self, serve: Serve, ours: Collection[int]) -> list[str]:
        from stoker.fleet.memory.fit import check  # 2 MB that only a swap needs
        from stoker.fleet.memory.fit.rules import RemarkKind
        from stoker.fleet.memory.fit.shape import UnreadableModel
        from stoker.fleet.memory.fit.verdict import FitAnswer

        slot = self._slot_of(serve.slot)
        devices = check.devices_for(serve, slot, self._probe.devices())
        accounting = self._probe.by_process() if devices else None
        credited = check.credited(devices, accounting, ours)
        theirs = process_memory(ours)
        if serve.engine in ("vllm", "sglang"):  # one request has to fit; the others wait for pages of its cache
            serve = replace(serve, parallel=1)
        try:
            report = check.check_fit(serve, credited, host_memory(credit=theirs.anonymous if theirs is not None else 0))
        except UnreadableModel:
            return []  # its engine will say what is wrong with it
        next_step = f"`stoker fit {serve.name}` says what would fit"
        if report.verdict.answer is FitAnswer.TOO_LARGE:
            raise StartFailed(f"{'; '.join(report.problems)}; {next_step}", code="startup_memory")
        if any(remark.kind is RemarkKind.UNSUPPORTED for remark in report.remarks):
            raise StartFailed(f"{'; '.join(report.problems)}; {next_step}", code="unsupported_quantization")
        if credited:
            books = open_ledger(slot or Slot(serve.name), credited, (), accounting, ours, _commands(accounting, ours))
            fits = would_fit(books, serve.name, MemorySize(report.needed, SizeSource.ESTIMATED))
            if isinstance(fits, Short):
                by = f", held by {' and '.join(fits.holders)}" if fits.holders else ""
                text = f"serve '{serve.name}' is short of {fits.bytes / 2**30:.1f} GiB on its devices{by}"
                raise StartFailed(f"{text}; {next_step}, and `stoker top` who lives there", code="startup_memory")
        return list(report.problems)

    def _measure(self, serve: Serve, pids: Collection[int]) -> MemoryMeasurement:
        slot = self._slot_of(serve.slot)
        devices = chosen(self._probe.devices(), slot.devices if slot is not None else ())
        return measure(pids, devices, self._probe.by_process() if devices else None)


def _commands(accounting: Accounting | None, ours: Collection[int]) -> dict[int, str]:
    """What the others that hold devices run, by name."""
    found = {}
    for pid in accounting or {}:
        if pid not in ours:
            with contextlib.suppress(psutil.Error):
                found[pid] = psutil.Process(pid).name()
    return found
