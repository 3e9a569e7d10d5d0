"""The machine of a run: card, driver, tools, and the speeds that bound a swap."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench import machine
from bench.gpu.prepare import COMMIT, PARTS
from stoker.fleet.memory.devices import Nvidia

NVML_FIELDS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "power_mw": ("nvmlDeviceGetPowerUsage", ()),
    "power_limit_mw": ("nvmlDeviceGetEnforcedPowerLimit", ()),
    "energy_mj": ("nvmlDeviceGetTotalEnergyConsumption", ()),
    "temperature_c": ("nvmlDeviceGetTemperature", (0,)),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration", ()),
    "clocks_event_reasons": ("nvmlDeviceGetCurrentClocksEventReasons", ()),
    "persistence_mode": ("nvmlDeviceGetPersistenceMode", ()),
}
COPIED = 2**30
"""Bytes of the copies between main memory and the GPU."""


def facts(folder: Path) -> dict[str, Any]:
    """Of `bench.machine`, of the first GPU, and of the disk with `folder`. Anything unknown is None. `notes`: why the
    driver does not show all of it.
    """
    probe, found, carried = Nvidia(), machine.facts(), PARTS / COMMIT
    device = next(iter(probe.devices()), None)
    return {
        **found,
        "commit": found["commit"] or (carried.read_text().strip() if carried.exists() else None),
        "card": device.name if device else None,
        "driver": device.driver if device else None,
        "gpu_memory": device.total if device else None,
        "cuda": cuda(),
        "tools": {name: shutil.which(name) is not None for name in ("nvcc", "cmake", "ninja", "nvidia-smi")},
        "torch": find_spec("torch") is not None,
        "disk_free": shutil.disk_usage(folder).free,
        "pid_namespace": _pid_namespace(),
        "notes": probe.notes(),
    }


def _pid_namespace() -> str | None:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def cuda() -> str | None:
    """The version of the compiler."""
    command = shutil.which("nvcc")
    if command is None:
        return None
    said = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
    return next((line.partition("release ")[2].split(",")[0] for line in said.splitlines() if "release" in line), None)


def nvml_fields(load: Callable[[], Any] | None = None) -> tuple[dict[str, float], list[str]]:
    """What NVML says of the first GPU, and the names of what it does not have. Raises ImportError and NVMLError."""
    import importlib

    nvml = load() if load is not None else importlib.import_module("pynvml")
    nvml.nvmlInit()
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    found: dict[str, float] = {}
    absent = []
    for name, (function, arguments) in NVML_FIELDS.items():
        try:
            found[name] = float(getattr(nvml, function)(handle, *arguments))
        except (AttributeError, nvml.NVMLError):
            absent.append(name)
    return found, absent


def copies() -> tuple[float, float]:
    """Bytes per second of pinned copies to the GPU and back, the best of three. Raises ImportError, RuntimeError."""
    import torch

    host = torch.empty(COPIED, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(COPIED, dtype=torch.uint8, device="cuda")

    def rate(target: Any, source: Any) -> float:
        best = 0.0
        for _ in range(3):
            torch.cuda.synchronize()
            began = time.perf_counter()
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize()
            best = max(best, COPIED / (time.perf_counter() - began))
        return best

    return rate(there, host), rate(host, there)
