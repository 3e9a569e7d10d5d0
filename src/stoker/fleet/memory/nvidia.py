"""NVIDIA through NVML: the package `nvidia-ml-py` (module `pynvml`), and a driver to talk to."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.fleet.memory.device import Accounting, Device

INITIAL_NAMESPACE = "pid:[4026531836]"
"""The kernel's fixed number of the initial process namespace, which NVML's process numbers belong to."""


def _import() -> Any:
    return importlib.import_module("pynvml")


class Nvidia:
    """A `DeviceProbe`. NVML is loaded and initialised at the first question; without it there are no devices.

    `load` returns the module `pynvml`; `proc` is where the kernel shows processes.
    """

    source = "NVML"

    def __init__(self, load: Callable[[], Any] = _import, proc: Path = Path("/proc")) -> None:
        self._load = load
        self._proc = proc
        self._nvml: Any = None
        self._why = ""

    def devices(self) -> list[Device]:
        return [self._device(index, handle) for index, handle in enumerate(self._handles())]

    def by_process(self) -> Accounting | None:
        handles = self._handles()
        if self._nvml is None or not self._counts_our_numbers():
            return None
        held: dict[int, dict[str, int | None]] = {}
        for handle in handles:
            uuid = _text(self._nvml.nvmlDeviceGetUUID(handle))
            lists = [self._ask(name, handle) for name in ("nvmlDeviceGetComputeRunningProcesses",
                                                          "nvmlDeviceGetGraphicsRunningProcesses")]  # fmt: skip
            if all(found is None for found in lists):
                return None
            for process in (entry for found in lists for entry in found or ()):
                # A process in both lists is shown with the same bytes in each.
                held.setdefault(int(process.pid), {})[uuid] = _bytes(process.usedGpuMemory)
        return held

    def notes(self) -> list[str]:
        handles = self._handles()
        if self._why:
            return [self._why]
        if handles and not self._counts_our_numbers():
            return [
                "nvidia: memory per process is unknown, since the driver counts processes of the host and this is "
                "a container: run it in the host's pid namespace (`docker run --pid=host`)"
            ]
        return []

    def _handles(self) -> list[Any]:
        if self._nvml is None:
            self._connect()
        if self._nvml is None:
            return []
        try:
            count = self._nvml.nvmlDeviceGetCount()
            return [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        except self._nvml.NVMLError as error:
            self._why = f"nvidia: the driver stopped answering ({error}): see `nvidia-smi`, and `dmesg` for Xid errors"
            self._nvml = None  # finds a driver that was reloaded since the last call
            return []

    def _connect(self) -> None:
        try:
            nvml = self._load()
        except ImportError:
            if (self._proc / "driver/nvidia").exists():
                self._why = (
                    "nvidia: GPUs cannot be seen, because a library is not installed: type `pip install nvidia-ml-py`"
                )
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self._why = f"nvidia: no driver answers ({error}): if there is a GPU, install its driver; see `nvidia-smi`"
            return
        self._nvml, self._why = nvml, ""

    def _device(self, index: int, handle: Any) -> Device:
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        capability = self._ask("nvmlDeviceGetCudaComputeCapability", handle)
        driver = self._ask("nvmlSystemGetDriverVersion")
        return Device(
            index=index,
            uuid=_text(self._nvml.nvmlDeviceGetUUID(handle)),
            name=_text(self._nvml.nvmlDeviceGetName(handle)),
            vendor="nvidia",
            total=_bytes(memory.total) if memory is not None else None,
            free=_bytes(memory.free) if memory is not None else None,
            arch=".".join(str(part) for part in capability) if capability is not None else None,
            driver=_text(driver) if driver is not None else None,
            address=self._address(handle),
        )

    def _address(self, handle: Any) -> str:
        """NVML writes eight digits of the domain, everybody else four."""
        place = self._ask("nvmlDeviceGetPciInfo", handle)
        return _text(place.busId).lower().rstrip("\0")[-len("0000:00:00.0") :] if place is not None else ""

    def _ask(self, name: str, *arguments: Any) -> Any:
        """None if this device, driver or package does not have it (unified memory, MIG, an old driver)."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _counts_our_numbers(self) -> bool:
        try:
            return os.readlink(self._proc / "self/ns/pid") == INITIAL_NAMESPACE
        except OSError:
            return True  # a kernel without namespaces has one


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _bytes(value: Any) -> int | None:
    return int(value) if value is not None else None
