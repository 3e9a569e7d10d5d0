"""Devices that tests need: a `pynvml` and kernel trees with recorded contents, and a probe that is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stoker.fleet.memory.devices import Accounting, Device
from stoker.fleet.memory.measure import Snapshot

GIB = 2**30


class NVMLError(Exception):
    pass


def nvml(**changes: Any) -> SimpleNamespace:
    """One L4 that process 4242 holds 6 GiB of. `changes` replace functions; an exception instead of one is raised."""

    def raising(error: Exception) -> Any:
        def function(*arguments: object) -> None:
            raise error

        return function

    functions: dict[str, Any] = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda handle: b"GPU-a",
        "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=b"00000000:41:00.0"),
        "nvmlDeviceGetName": lambda handle: "NVIDIA L4",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=24 * GIB, free=18 * GIB),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (8, 9),
        "nvmlSystemGetDriverVersion": lambda: "570.1",
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=4242, usedGpuMemory=6 * GIB)],
        "nvmlDeviceGetGraphicsRunningProcesses": lambda handle: [SimpleNamespace(pid=7, usedGpuMemory=None)],
    }
    functions |= {n: raising(value) if isinstance(value, Exception) else value for n, value in changes.items()}
    return SimpleNamespace(**functions)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def namespace(proc: Path, number: int) -> None:
    (proc / "self/ns").mkdir(parents=True, exist_ok=True)
    (proc / "self/ns/pid").symlink_to(f"pid:[{number}]")


def opened(proc: Path, pid: int, descriptor: int, facts: str, device: str = "/dev/dri/renderD128") -> None:
    """A process that has a device file open."""
    write(proc, {f"{pid}/fdinfo/{descriptor}": facts})
    (proc / f"{pid}/fd").mkdir(exist_ok=True)
    (proc / f"{pid}/fd/{descriptor}").symlink_to(device)


class Told:
    """A probe that shows each of these moments in turn, the last one for ever."""

    source = "told"

    def __init__(self, *moments: Snapshot) -> None:
        self.moments: Sequence[Snapshot] = moments
        self.looks = 0

    def devices(self) -> list[Device]:
        now = self.moments[min(self.looks, len(self.moments) - 1)]
        return [Device(i, uuid, "T", "nvidia", 24 * GIB, free) for i, (uuid, free) in enumerate(now.free.items())]

    def by_process(self) -> Accounting | None:
        self.looks += 1
        return self.moments[min(self.looks - 1, len(self.moments) - 1)].accounting

    def notes(self) -> list[str]:
        return []
