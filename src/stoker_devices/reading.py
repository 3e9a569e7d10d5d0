"""One moment of one device, and what follows from two of them. Pure.

What a device does not say is None: unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from stoker.fleet.memory.devices import Device


class Throttle(StrEnum):
    """Why a device runs slower than it could."""

    POWER = "power"
    """It is at its power limit, as most are at full work."""
    HEAT = "heat"
    HARDWARE = "hardware"
    """A signal from outside: the power supply, the machine's own protection."""


ALARMING = frozenset((Throttle.HEAT, Throttle.HARDWARE))


class EngineBusy(NamedTuple):
    """Counters of one kind of engine of a device: its busy part of a total, in the same unit."""

    busy: int
    total: int


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One device at one moment."""

    device: Device
    at: float = 0.0
    """Monotonic seconds."""
    use: float | None = None
    """Share of the time in which it computed, 0 to 1."""
    temperature: float | None = None
    """Degrees Celsius, of the sensor that is nearest to its limit."""
    temperature_limit: float | None = None
    """From which on it slows itself down."""
    watts: float | None = None
    watts_limit: float | None = None
    joules: float | None = None
    """Since its driver was loaded."""
    core_mhz: float | None = None
    memory_mhz: float | None = None
    throttled: frozenset[Throttle] | None = None
    """Empty: it is not."""
    is_suspended: bool = False
    """The kernel has switched it off, since nobody uses it. It is not asked then: that would wake it."""
    engines: Mapping[str, EngineBusy] = field(default_factory=dict)
    """Where `use` follows from two readings: the counters of its kinds of engine."""

    @property
    def name(self) -> str:
        """`nvidia:0`, as in `devices` of a slot."""
        return f"{self.device.vendor}:{self.device.index}"

    @property
    def memory_used(self) -> int | None:
        total, free = self.device.total, self.device.free
        return total - free if total is not None and free is not None else None


def completed(before: DeviceReading | None, now: DeviceReading) -> DeviceReading:
    """With the power and the use that follow from the counters of two readings, where the device does not say them."""
    if before is None or now.at <= before.at:
        return now
    watts, use = now.watts, now.use
    if watts is None and before.joules is not None and now.joules is not None and now.joules >= before.joules:
        watts = (now.joules - before.joules) / (now.at - before.at)
    if use is None:
        use = _use(before.engines, now.engines)
    return replace(now, watts=watts, use=use)


def _use(before: Mapping[str, EngineBusy], now: Mapping[str, EngineBusy]) -> float | None:
    """That of the busiest kind of engine. A program that ended takes its counters along: then it is unknown."""
    shares = [
        (now[kind].busy - before[kind].busy) / (now[kind].total - before[kind].total)
        for kind in now.keys() & before.keys()
        if now[kind].total > before[kind].total and now[kind].busy >= before[kind].busy
    ]
    return min(1.0, max(shares)) if shares else None


def silent(reading: DeviceReading, at: float) -> DeviceReading:
    """The same device, which does not answer."""
    return DeviceReading(replace(reading.device, free=None), at)


NVIDIA_REASONS: Mapping[int, Throttle] = {
    0x4: Throttle.POWER,
    0x8: Throttle.HARDWARE,
    0x20: Throttle.HEAT,
    0x40: Throttle.HEAT,
    0x80: Throttle.HARDWARE,
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h). Others are no throttling: idle, clocks that somebody set."""


def nvidia_throttled(bits: int) -> frozenset[Throttle]:
    """A hardware slowdown for heat has both bits: then it is heat."""
    found = frozenset(reason for bit, reason in NVIDIA_REASONS.items() if bits & bit)
    return found - {Throttle.HARDWARE} if Throttle.HEAT in found and not bits & 0x80 else found


AMD_REASONS: Sequence[tuple[int, int, Throttle]] = (
    (0, 23, Throttle.POWER), (32, 45, Throttle.HEAT), (46, 47, Throttle.HARDWARE), (56, 57, Throttle.POWER),
)  # fmt: skip
"""First and last bit of each group in `indep_throttle_status` (amdgpu_smu.h: PPT, TDC, EDC; temperatures, VRHOT;
PROCHOT; PPM, FIT).
"""
_AMD_FORMAT = (1, 3)
_AMD_STATUS = 112
"""Where gpu_metrics_v1_3 (kgd_pp_interface.h) has `indep_throttle_status`, a little-endian number of 64 bits. Other
versions have it elsewhere, or not at all.
"""
_AMD_UNKNOWN = 2**64 - 1


def amd_throttled(gpu_metrics: bytes) -> frozenset[Throttle] | None:
    """From the kernel's file `gpu_metrics`; None: its version does not say it."""
    if len(gpu_metrics) < _AMD_STATUS + 8 or (gpu_metrics[2], gpu_metrics[3]) != _AMD_FORMAT:
        return None
    bits = int.from_bytes(gpu_metrics[_AMD_STATUS : _AMD_STATUS + 8], "little")
    if bits == _AMD_UNKNOWN:
        return None
    return frozenset(reason for first, last, reason in AMD_REASONS if bits >> first & (1 << (last - first + 1)) - 1)


INTEL_REASONS: Mapping[str, Throttle] = {
    "thermal": Throttle.HEAT, "prochot": Throttle.HARDWARE, "ratl": Throttle.HEAT, "vr_thermalert": Throttle.HEAT,
    "vr_tdc": Throttle.POWER, "pl1": Throttle.POWER, "pl2": Throttle.POWER, "pl4": Throttle.POWER,
}  # fmt: skip
"""How the files `reason_NAME` (xe) and `throttle_reason_NAME` (i915) of the kernel end, each 0 or 1."""


def hottest(sensors: Sequence[tuple[float, float | None]]) -> tuple[float | None, float | None]:
    """Of sensors with their limits, the one that is nearest to its limit; of those without a limit, the warmest."""
    limited = [(limit - value, value, limit) for value, limit in sensors if limit is not None]
    if limited:
        _, value, limit = min(limited)
        return value, limit
    return max((value for value, _ in sensors), default=None), None
