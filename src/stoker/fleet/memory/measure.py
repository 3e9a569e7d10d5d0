"""The memory of a running serve: from process numbers to bytes, and how it was measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.fleet.memory import host
from stoker.fleet.memory.device import Accounting, Device
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
