"""Reads NVIDIA devices by NVML, as `stoker.fleet.memory.devices` does."""

from __future__ import annotations

from typing import Any

from stoker.fleet.memory.devices import Nvidia
from stoker_devices.reading import DeviceReading, nvidia_throttled

_GPU, _SLOWDOWN = 0, 1
"""A sensor, and a kind of temperature threshold."""
_SM, _MEMORY = 1, 2
"""Kinds of clocks."""


def read(probe: Nvidia, at: float) -> list[DeviceReading]:
    """What each device says now. Blocks for milliseconds, or while the driver hangs."""
    handles = {uuid: handle for _, uuid, handle in probe.handles()}
    return [
        _reading(probe, handles[device.uuid], DeviceReading(device, at))
        for device in probe.devices()
        if device.uuid in handles
    ]


def _reading(probe: Nvidia, handle: Any, empty: DeviceReading) -> DeviceReading:
    def ask(name: str, *arguments: int) -> Any:
        return probe.ask(f"nvmlDeviceGet{name}", handle, *arguments)

    use = ask("UtilizationRates")
    reasons = ask("CurrentClocksEventReasons")
    if reasons is None:
        reasons = ask("CurrentClocksThrottleReasons")  # its name before driver 535
    return DeviceReading(
        empty.device,
        empty.at,
        use=use.gpu / 100 if use is not None else None,
        temperature=_number(ask("Temperature", _GPU)),
        temperature_limit=_number(ask("TemperatureThreshold", _SLOWDOWN)),
        watts=_number(ask("PowerUsage"), 1000),
        watts_limit=_number(ask("EnforcedPowerLimit"), 1000),
        joules=_number(ask("TotalEnergyConsumption"), 1000),
        core_mhz=_number(ask("ClockInfo", _SM)),
        memory_mhz=_number(ask("ClockInfo", _MEMORY)),
        throttled=nvidia_throttled(int(reasons)) if reasons is not None else None,
    )


def _number(value: Any, divisor: int = 1) -> float | None:
    return value / divisor if value is not None else None
