"""The memory of a running serve: from process numbers to bytes, and how it was measured; and the wait between stop and
start, since the device memory of a process may be freed only some time after its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.domain import figures
from stoker.domain.protocols import Clock
from stoker.fleet.memory import host
from stoker.fleet.memory.devices import Accounting, Device, DeviceProbe
from stoker.fleet.memory.ledger import MemorySize, SizeSource

_SOURCES = {"nvidia": SizeSource.NVML, "amd": SizeSource.FDINFO, "intel": SizeSource.FDINFO}


@dataclass(frozen=True, slots=True)
class MemoryMeasurement:
    """`weight` counts against the slot; the other fields are for people."""

    weight: MemorySize
    devices: Mapping[str, int | None] = field(default_factory=dict)
    """Device uuid -> bytes."""
    main: host.ProcessMemory | None = None


def measure(
    pids: Collection[int], devices: Collection[Device], accounting: Accounting | None, proc: Path = Path("/proc")
) -> MemoryMeasurement:
    """The memory of `devices` that these processes hold (of a slot's devices; of all devices if it names none).

    1. they hold memory of devices     -> that; unknown if one device does not say how much
    2. no accounting per process        -> unknown: main memory would be the wrong figure
    3. they hold none, or there is no device -> main memory
    """
    main = host.process_memory(pids, proc)
    by_device: dict[str, int | None] = {}
    known = {device.uuid: device for device in devices}
    for pid in pids:
        for uuid, size in (accounting or {}).get(pid, {}).items():
            if uuid in known:
                earlier = by_device.get(uuid, 0)
                by_device[uuid] = earlier + size if earlier is not None and size is not None else None
    if by_device:
        sizes = [size for size in by_device.values() if size is not None]
        if len(sizes) < len(by_device):
            return MemoryMeasurement(MemorySize(None, SizeSource.UNKNOWN), by_device, main)
        return MemoryMeasurement(
            MemorySize(sum(sizes), _SOURCES[known[next(iter(by_device))].vendor]), by_device, main
        )  # 1
    if devices and accounting is None:
        return MemoryMeasurement(MemorySize(None, SizeSource.UNKNOWN), {}, main)  # 2
    if main is None:
        return MemoryMeasurement(MemorySize(None, SizeSource.UNKNOWN), {}, None)
    return MemoryMeasurement(MemorySize(main.total, SizeSource.PROC), {}, main)  # 3


FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.25
SETTLED = 0.05
"""If usage per process is unknown, two readings this many seconds apart have to show the same free memory."""
SLACK = 64 * 2**20
"""Bytes per device that may change for other reasons (a desktop, another busy serve)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The memory usage at one moment. Only devices whose free memory is known are in `free`."""

    free: Mapping[str, int]
    accounting: Accounting | None
    has_devices: bool = True


@dataclass(frozen=True, slots=True)
class Freed:
    seconds: float
    missing: int | None
    """Bytes that were not free in time; 0 if all are. None: this machine does not report it."""
    holders: tuple[int, ...] = ()
    """Stopped processes that still hold memory."""

    def __str__(self) -> str:
        if self.missing is None and not self.holders:
            return "this machine does not report whether its memory is free"
        if not self.missing and not self.holders:
            return f"its memory was free after {self.seconds:.3f} s"
        size = figures.size(self.missing) if self.missing else "memory of unknown size"
        by = f", held by process {', '.join(str(pid) for pid in self.holders)}" if self.holders else ""
        return f"{size} was not freed within {self.seconds:.1f} s{by}: see `nvidia-smi` and `stoker doctor`"


def snapshot(probe: DeviceProbe) -> Snapshot:
    """Call this before the stop, while the processes still hold their memory. Blocks for milliseconds."""
    devices = probe.devices()
    free = {device.uuid: device.free for device in devices if device.free is not None}
    return Snapshot(free, probe.by_process() if devices else None, bool(devices))


def still_missing(before: Snapshot, now: Snapshot, pids: Collection[int]) -> tuple[int | None, tuple[int, ...]]:
    """Bytes held by `pids` that are not free yet, and which of them still hold some. Pure.

    1. no device -> nothing: main memory is freed with the process
    2. a stopped process is still listed -> its listed bytes
    3. free memory did not rise by what they held, less what others took meanwhile -> the difference, above SLACK
    4. no accounting at all -> unknown
    """
    if not before.has_devices:
        return 0, ()  # 1
    if before.accounting is None or now.accounting is None:
        return None, ()  # 4
    holders = tuple(sorted(pid for pid in pids if now.accounting.get(pid)))
    missing = 0
    for uuid, free in before.free.items():
        gone = _held(before.accounting, uuid, lambda pid: pid in pids)
        others = _held(now.accounting, uuid, lambda pid: pid not in pids)
        others -= _held(before.accounting, uuid, lambda pid: pid not in pids)
        short = free + gone - others - now.free.get(uuid, free)
        missing += short if short > SLACK else 0  # 3
    listed = sum(size or 0 for pid in holders for size in now.accounting[pid].values())  # 2
    return max(missing, listed), holders


def _held(accounting: Accounting, uuid: str, is_meant: Callable[[int], bool]) -> int:
    return sum(held.get(uuid) or 0 for pid, held in accounting.items() if is_meant(pid))


async def wait_until_free(
    probe: DeviceProbe,
    pids: Collection[int],
    before: Snapshot,
    clock: Clock,
    limit: float,
    needed: Mapping[str, int] | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> Freed:
    """Wait, `limit` seconds at most, until the memory that `pids` held on devices is free.

    `needed` (device uuid -> bytes): stop waiting when that much is free. If usage per process is unknown and `needed`
    is not given, the wait ends once free memory has stopped rising. The probe runs in a thread: at once, after 5 ms,
    then after longer and longer pauses. On cancel CancelledError is raised at once; nothing has changed.
    """
    began = clock.now()
    pause = FIRST_PAUSE
    if not before.has_devices:
        return Freed(0.0, 0)
    earlier: Mapping[str, int] = before.free
    while True:
        now = await asyncio.to_thread(snapshot, probe)
        missing, holders = still_missing(before, now, pids)
        seconds = clock.now() - began
        if needed and not holders and all(now.free.get(uuid, -1) >= size for uuid, size in needed.items()):
            return Freed(seconds, 0)
        has_settled = not needed and pause > SETTLED and now.free == earlier
        if seconds >= limit or (missing == 0 and not holders) or (missing is None and has_settled):
            return Freed(seconds, missing, holders)
        earlier = now.free
        await sleep(min(pause, max(0.0, limit - seconds)))
        pause = min(2 * pause, LONGEST_PAUSE)
