"""A fake CUDA driver, compiled from `fake_libcuda.c`, and processes that use it."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stoker.domain.serve import Serve
from stoker.fleet.memory.devices import Accounting, Device
from stoker.fleet.memory.host import HostMemory
from stoker.fleet.supervision import sleep_control
from stoker.fleet.supervision.supervisor import Supervisor
from stoker.fleet.warm.keeper import WarmKeeper

GIB = 2**30
HELD = 8 * GIB
SOURCE = Path(__file__).with_name("fake_libcuda.c")


class FakeDriver:
    """`folder` has its library and the states; see the C file. It is also a `DeviceProbe`: what runs holds 8 GiB."""

    source = "NVML"
    vendor = "nvidia"

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            pytest.skip("a fake driver has to be compiled, and there is no C compiler here")
        self.folder, self.states = folder, folder / "states"
        self.states.mkdir(parents=True)
        self.memory_of: list[int | None] = []
        """For whom main memory was asked for; None: Stoker."""
        self.library = folder / "libcuda.so.1"
        where = f'-DSTATE="{self.states}"'
        subprocess.run([compiler, "-shared", "-fPIC", "-w", where, "-o", self.library, SOURCE], check=True)

    def use(self, pid: int | None) -> None:
        """From now on this process uses CUDA."""
        (self.states / str(pid)).write_text("0")

    def fail(self, function: str, code: int) -> None:
        (self.states / "fail").write_text(f"{function} {code}\n")

    def work_again(self) -> None:
        (self.states / "fail").unlink()

    def state(self, pid: int | None) -> int:
        return int((self.states / str(pid)).read_text())

    def devices(self) -> list[Device]:
        return [Device(0, "GPU-a", "Fake", "nvidia", 80 * GIB, 80 * GIB)]

    def by_process(self) -> Accounting | None:
        pids = [int(path.name) for path in self.states.iterdir() if path.name.isdigit()]
        return {pid: {"GPU-a": 0 if self.state(pid) == 2 else HELD} for pid in pids}

    def misses(self) -> bool:
        return False

    def notes(self) -> list[str]:
        return []


def fleet_of(
    workshop: Any, driver: FakeDriver, given: Serve, memory: int = 4 * HELD, **context: Any
) -> tuple[Supervisor, WarmKeeper]:
    """With room for two such serves in the warm pool. `memory`: free main memory."""
    warm = WarmKeeper(2 * HELD, [given], logging.getLogger("test"), predict=False)
    fleet: Supervisor = workshop.supervisor(warm, probe=driver, **context)

    def left(pid: int | None) -> HostMemory:
        driver.memory_of.append(pid)
        return HostMemory(memory, memory)

    fleet._sleep_control._by_driver = sleep_control.SleepByDriver(left)  # noqa: SLF001
    return fleet, warm
