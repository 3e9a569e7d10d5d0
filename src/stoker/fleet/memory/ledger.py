"""The memory of one slot: its budget, what each serve holds, and whether one more fits. Pure. Bytes; None: unknown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from stoker.domain.serve import Slot
from stoker.fleet.memory.devices import Accounting, Device

USABLE_SHARE = 0.95
"""Share of a device's memory that serves may use. The rest is for the driver and for fragmentation."""


class SizeSource(StrEnum):
    """Where a figure comes from."""

    NVML = "measured (NVML)"
    FDINFO = "measured (fdinfo)"
    PROC = "measured (/proc)"
    DECLARED = "declared"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MemorySize:
    """The memory that a serve counts as."""

    bytes: int | None
    source: SizeSource


@dataclass(frozen=True, slots=True)
class Tenant:
    """One resident of the slot. `measured`: the memory that it holds now."""

    name: str
    declared: int | None = None
    measured: MemorySize = MemorySize(None, SizeSource.UNKNOWN)
    estimated: int | None = None

    @property
    def weight(self) -> MemorySize:
        return best_size(self.declared, self.measured, self.estimated)

    @property
    def on_devices(self) -> int | None:
        """The device memory that its end frees."""
        return 0 if self.measured.source is SizeSource.PROC else self.measured.bytes


def best_size(declared: int | None, measured: MemorySize, estimated: int | None) -> MemorySize:
    """The figure that counts: the configured one, else the measured, else the estimated one."""
    if declared is not None:
        return MemorySize(declared, SizeSource.DECLARED)
    if measured.bytes is not None:
        return measured
    if estimated is not None:
        return MemorySize(estimated, SizeSource.ESTIMATED)
    return MemorySize(None, SizeSource.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A process that is not one of Stoker's serves but holds memory of the slot's devices."""

    pid: int
    command: str
    bytes: int | None

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})"


@dataclass(frozen=True, slots=True)
class Ledger:
    """A snapshot of one slot."""

    slot: str
    budget: int | None
    """The slot's `memory`, else `USABLE_SHARE` of its devices."""
    is_declared: bool
    total: int | None
    """Total memory of the slot's devices."""
    free: int | None
    """Free memory of the slot's devices."""
    tenants: tuple[Tenant, ...] = ()
    foreign: tuple[Foreign, ...] = ()

    def room(self, victims: Collection[str] = ()) -> int | None:
        """Memory for one more serve once `victims` are gone: what budget and devices leave, whichever is less."""
        staying = [tenant for tenant in self.tenants if tenant.name not in victims]
        known = [room for room in (self._by_budget(staying), self._by_devices(victims)) if room is not None]
        return min(known) if known else None

    def _by_budget(self, staying: Sequence[Tenant]) -> int | None:
        used = _sum([tenant.weight.bytes for tenant in staying])
        return self.budget - used if self.budget is not None and used is not None else None

    def _by_devices(self, victims: Collection[str]) -> int | None:
        """Free memory once `victims` are gone. Of theirs, only measured memory counts, not what is declared."""
        credit = _sum([tenant.on_devices for tenant in self.tenants if tenant.name in victims])
        if self.free is None or credit is None:
            return None
        kept = self.total - self.budget if self.total and self.budget and not self.is_declared else 0
        return self.free + credit - kept


class Fits(NamedTuple):
    left: int
    """Bytes that are kept free."""


class Short(NamedTuple):
    bytes: int
    holders: tuple[str, ...]
    """The holders of the slot's memory, largest first: serves, and unrelated processes."""


class Unknown(NamedTuple):
    why: str


def would_fit(ledger: Ledger, name: str, need: MemorySize, victims: Collection[str] = ()) -> Fits | Short | Unknown:
    """Whether serve `name` fits once `victims` have stopped.

    1. its need is unknown -> Unknown
    2. the free memory is unknown -> Unknown
    3. there is room -> Fits
    4. otherwise -> Short, with the holders of the memory
    """
    if need.bytes is None:
        return Unknown(f"the memory that serve '{name}' needs is unknown: set its `memory`")  # 1
    room = ledger.room(victims)
    if room is None:
        return Unknown(f"the memory of slot '{ledger.slot}' is unknown: set its `memory`")  # 2
    if need.bytes <= room:
        return Fits(room - need.bytes)  # 3
    staying = [(t.weight.bytes or 0, f"serve '{t.name}'") for t in ledger.tenants if t.name not in victims]
    staying += [(f.bytes or 0, str(f)) for f in ledger.foreign]
    return Short(need.bytes - room, tuple(text for _, text in sorted(staying, key=lambda item: -item[0])))  # 4


def open_ledger(
    slot: Slot,
    devices: Sequence[Device],
    tenants: Sequence[Tenant],
    accounting: Accounting | None,
    ours: Collection[int],
    commands: Mapping[int, str],
) -> Ledger:
    """The ledger of a slot with these `devices`. `ours`: processes of Stoker's serves; `commands`: names of the others.

    A slot without devices has only its declared budget.
    """
    total = _sum([device.total for device in devices]) if devices else None
    free = _sum([device.free for device in devices]) if devices else None
    budget = slot.memory
    if budget is None and total is not None:
        budget = int(total * USABLE_SHARE)
    uuids = {device.uuid for device in devices}
    foreign = [
        Foreign(pid, commands.get(pid, "unknown command"), _sum([held[uuid] for uuid in held if uuid in uuids]))
        for pid, held in (accounting or {}).items()
        if pid not in ours and uuids & set(held)
    ]
    return Ledger(slot.name, budget, slot.memory is not None, total, free, tuple(tenants), tuple(foreign))


def _sum(sizes: Sequence[int | None]) -> int | None:
    """The sum; None if any of them is None."""
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
