"""Reads AMD and Intel devices from /sys and /proc.

AMD: `amdgpu`. Intel: `i915` and `xe`, whose use follows from the counters of the programs that use the device
(/proc/PID/fdinfo); only root sees those of other users, so it is a lower bound for others.
Source: docs.kernel.org, "AMDGPU driver", "Hardware monitoring", "DRM client usage stats", sysfs-driver-intel-*-hwmon.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stoker.fleet.memory.devices import Amd, DrmCard, Intel, drm_clients, read_number, read_word
from stoker_devices.reading import (
    INTEL_REASONS,
    DeviceReading,
    EngineBusy,
    Throttle,
    amd_throttled,
    hottest,
)

MILLION = 10**6
_ENGINE, _CAPACITY = "drm-engine-", "drm-engine-capacity-"
_CYCLES, _TOTAL_CYCLES = "drm-cycles-", "drm-total-cycles-"


def read_amd(probe: Amd, at: float) -> list[DeviceReading]:
    """What each device says now. Blocks for milliseconds."""
    pairs = zip(probe.devices(), probe.cards(), strict=False)
    return [_amd(card, DeviceReading(device, at)) for device, card in pairs if device.address == card.address]


def read_intel(probe: Intel, at: float, proc: Path = Path("/proc")) -> list[DeviceReading]:
    """As `read_amd`. Blocks for as long as it takes to look at the files that all processes have open."""
    pairs = [pair for pair in zip(probe.devices(), probe.cards(), strict=False) if not _is_suspended(pair[1])]
    engines = _engines(proc, {card.address for _, card in pairs}, at) if pairs else {}
    return [
        replace(_intel(card, DeviceReading(device, at)), engines=engines.get(card.address, {}))
        for device, card in zip(probe.devices(), probe.cards(), strict=False)
    ]


def _is_suspended(card: DrmCard) -> bool:
    return read_word(card.path / "device/power/runtime_status") == "suspended"


def _amd(card: DrmCard, empty: DeviceReading) -> DeviceReading:
    if _is_suspended(card):
        return replace(empty, is_suspended=True)
    monitor = _monitor(card)
    temperature, limit = _temperature(monitor)
    watts = _scaled(monitor, "power1_average", MILLION)
    try:
        metrics = (card.path / "device/gpu_metrics").read_bytes()
    except OSError:
        metrics = b""
    return replace(
        empty,
        use=_scaled(card.path / "device", "gpu_busy_percent", 100),
        temperature=temperature,
        temperature_limit=limit,
        watts=watts if watts is not None else _scaled(monitor, "power1_input", MILLION),
        watts_limit=_scaled(monitor, "power1_cap", MILLION),
        joules=_scaled(monitor, "energy1_input", MILLION),
        core_mhz=_scaled(monitor, "freq1_input", MILLION),
        memory_mhz=_scaled(monitor, "freq2_input", MILLION),
        throttled=amd_throttled(metrics),
    )


def _intel(card: DrmCard, empty: DeviceReading) -> DeviceReading:
    if _is_suspended(card):
        return replace(empty, is_suspended=True)
    monitor = _monitor(card)
    temperature, limit = _temperature(monitor)
    xe = card.path / "device/tile0/gt0/freq0"
    core = read_number(xe / "act_freq")
    if core is None:
        core = read_number(card.path / "gt/gt0/rps_act_freq_mhz")
    throttled = _reasons(xe / "throttle", "")
    if throttled is None:
        throttled = _reasons(card.path / "gt/gt0", "throttle_")
    return replace(
        empty,
        temperature=temperature,
        temperature_limit=limit,
        watts_limit=_scaled(monitor, "power1_max", MILLION),
        joules=_scaled(monitor, "energy1_input", MILLION),
        core_mhz=float(core) if core is not None else None,
        throttled=throttled,
    )


def _reasons(folder: Path, prefix: str) -> frozenset[Throttle] | None:
    status = read_number(folder / ("throttle_reason_status" if prefix else "status"))
    if status is None:
        return None
    return frozenset(why for name, why in INTEL_REASONS.items() if read_number(folder / f"{prefix}reason_{name}"))


def _monitor(card: DrmCard) -> Path:
    """The device's folder of sensors; one that does not exist, if it has none."""
    return min((card.path / "device/hwmon").glob("hwmon*"), default=card.path / "device/hwmon/none")


def _temperature(monitor: Path) -> tuple[float | None, float | None]:
    sensors = []
    for path in monitor.glob("temp*_input"):
        value = _scaled(monitor, path.name, 1000)
        if value is not None:
            sensors.append((value, _scaled(monitor, path.name.replace("_input", "_crit"), 1000)))
    return hottest(sensors)


def _scaled(folder: Path, name: str, divisor: int) -> float | None:
    value = read_number(folder / name)
    return value / divisor if value is not None else None


def _engines(proc: Path, addresses: set[str], at: float) -> dict[str, dict[str, EngineBusy]]:
    """Address -> kind of engine -> what all programs together kept it busy. A device that no program here uses is not
    in it: that of other users may.
    """
    found: dict[str, dict[str, EngineBusy]] = {}
    seen: set[tuple[str, str]] = set()
    try:
        pids = [entry for entry in os.listdir(proc) if entry.isdigit()]
    except OSError:
        return {}
    for pid in pids:
        for facts in drm_clients(proc / pid):
            address, client = facts.get("drm-pdev", ""), facts.get("drm-client-id", "")
            if address not in addresses or (address, client) in seen:
                continue
            seen.add((address, client))
            mine = found.setdefault(address, {})
            for kind, one in _counters(facts, at).items():
                before = mine.get(kind, EngineBusy(0, 0))
                mine[kind] = EngineBusy(before.busy + one.busy, max(before.total, one.total))
    return found


def _counters(facts: Mapping[str, str], at: float) -> dict[str, EngineBusy]:
    """Of one client, by kind of engine. i915 shows nanoseconds, xe cycles of a clock that it shows, too."""
    found = {}
    for key, value in facts.items():
        number = _leading(value)
        if number is None:
            continue
        if key.startswith(_CYCLES):
            kind = key.removeprefix(_CYCLES)
            total = _leading(facts.get(f"{_TOTAL_CYCLES}{kind}", ""))
            if total is not None:
                found[kind] = EngineBusy(number, total * _capacity(facts, kind))
        elif key.startswith(_ENGINE) and not key.startswith(_CAPACITY):
            kind = key.removeprefix(_ENGINE)
            found[kind] = EngineBusy(number, int(at * 1e9) * _capacity(facts, kind))
    return found


def _capacity(facts: Mapping[str, str], kind: str) -> int:
    """How many engines of a kind the device has, which its counters of busy time add up."""
    return _leading(facts.get(f"{_CAPACITY}{kind}", "")) or 1


def _leading(text: str) -> int | None:
    word = text.partition(" ")[0]
    return int(word) if word.isdigit() else None
