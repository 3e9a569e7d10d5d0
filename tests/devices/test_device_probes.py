"""Devices as NVML and the kernel show them, from recorded contents."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.devices.test_device_readings import gpu_metrics
from tests.fleet.memory.device_trees import GIB, NVMLError, nvml, opened, write

from stoker.fleet.memory.devices import Amd, Intel, Nvidia
from stoker_devices.reading import DeviceReading, Throttle
from stoker_devices.sampler import Sampler

FIGURES: dict[str, Any] = {
    "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=73, memory=40),
    "nvmlDeviceGetTemperature": lambda handle, sensor: 66,
    "nvmlDeviceGetTemperatureThreshold": lambda handle, kind: 92,
    "nvmlDeviceGetPowerUsage": lambda handle: 61500,
    "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 72000,
    "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 1234000,
    "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 2040, 2: 6251}[kind],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x4,
}
AMD = {
    "vendor": "0x1002\n", "uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n", "unique_id": "ab12\n",
    "mem_info_vram_total": f"{16 * GIB}\n", "mem_info_vram_used": f"{4 * GIB}\n", "gpu_busy_percent": "55\n",
    "hwmon/hwmon3/temp1_input": "61000\n", "hwmon/hwmon3/temp1_crit": "100000\n",
    "hwmon/hwmon3/temp2_input": "95000\n", "hwmon/hwmon3/temp2_crit": "110000\n",
    "hwmon/hwmon3/power1_average": "203000000\n", "hwmon/hwmon3/power1_cap": "260000000\n",
    "hwmon/hwmon3/freq1_input": "2400000000\n", "hwmon/hwmon3/freq2_input": "1249000000\n",
}  # fmt: skip
INTEL = {
    "vendor": "0x8086\n", "uevent": "DRIVER=xe\nPCI_SLOT_NAME=0000:07:00.0\n",
    "tile0/physical_vram_size_bytes": f"{12 * GIB}\n", "hwmon/hwmon1/energy1_input": "1000000000\n",
    "hwmon/hwmon1/power1_max": "190000000\n", "hwmon/hwmon1/temp2_input": "58000\n",
    "tile0/gt0/freq0/act_freq": "2350\n", "tile0/gt0/freq0/throttle/status": "1\n",
    "tile0/gt0/freq0/throttle/reason_thermal": "1\n", "tile0/gt0/freq0/throttle/reason_pl1": "0\n",
}  # fmt: skip
XE = "drm-driver: xe\ndrm-pdev: 0000:07:00.0\ndrm-client-id: 5\ndrm-cycles-ccs: {busy}\ndrm-total-cycles-ccs: {total}\n"


class Machine:
    def __init__(self, root: Path, library: Any = None) -> None:
        self.system, self.proc, self.seconds = root / "sys", root / "proc", 100.0
        self.proc.mkdir()
        self.library = library

        def load() -> Any:
            if self.library is None:
                raise ImportError
            return self.library

        probes = (Nvidia(load, self.proc, root / "dev"), Amd(self.system, self.proc), Intel(self.system, self.proc))
        self._sampler = Sampler(probes, lambda: self.seconds, self.proc)

    def has(self, card: str, files: dict[str, str]) -> Path:
        return write(self.system / f"class/drm/{card}/device", files)

    def read(self) -> tuple[DeviceReading, ...]:
        self.seconds += 2.0
        return self._sampler.read()


def test_what_nvml_says(tmp_path: Path) -> None:
    [one] = Machine(tmp_path, nvml(**FIGURES)).read()
    assert (one.name, one.memory_used, one.use, one.throttled) == ("nvidia:0", 6 * GIB, 0.73, {Throttle.POWER})
    assert (one.temperature, one.temperature_limit, one.watts, one.watts_limit) == (66, 92, 61.5, 72)
    assert (one.joules, one.core_mhz, one.memory_mhz) == (1234, 2040, 6251)


def test_what_an_old_driver_or_device_does_not_say_is_unknown(tmp_path: Path) -> None:
    changes = {name: NVMLError("not supported") for name in FIGURES}
    older = {"nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x40}
    [one] = Machine(tmp_path, nvml(**changes, **older)).read()
    assert (one.use, one.temperature, one.watts, one.joules, one.core_mhz) == (None,) * 5
    assert one.throttled == {Throttle.HEAT}


def test_a_device_that_stops_answering_is_unknown_and_costs_the_others_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path, nvml(**FIGURES))
    machine.has("card0", AMD)
    assert [one.watts for one in machine.read()] == [203.0, 61.5]
    machine.library.nvmlDeviceGetCount = lambda: 0
    assert [(one.name, one.watts) for one in machine.read()] == [("amd:0", 203.0), ("nvidia:0", None)]
    machine.library.nvmlDeviceGetCount = lambda: 1
    assert [one.watts for one in machine.read()] == [203.0, 61.5]


def test_a_vendor_whose_reading_fails_is_silent_and_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder of sensors can vanish while it is listed: the driver is loaded again."""
    machine = Machine(tmp_path, nvml(**FIGURES))
    machine.has("card0", AMD)
    machine.read()
    with monkeypatch.context() as patched:
        patched.setattr("stoker_devices.kernel._monitor", lambda card: int("hwmon has gone"))
        for _ in range(2):
            assert [(one.name, one.watts) for one in machine.read()] == [("amd:0", None), ("nvidia:0", 61.5)]
    assert [one.watts for one in machine.read()] == [203.0, 61.5]
    [record] = caplog.records
    assert "AMD devices could not be read" in record.getMessage()


def test_what_the_kernel_shows_of_an_amd_device(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    folder = machine.has("card0", AMD)
    (folder / "gpu_metrics").write_bytes(gpu_metrics(1 << 36))
    [one] = machine.read()
    assert (one.name, one.memory_used, one.use, one.throttled) == ("amd:0", 4 * GIB, 0.55, {Throttle.HEAT})
    assert (one.temperature, one.temperature_limit, one.watts, one.watts_limit) == (95, 110, 203, 260)
    assert (one.joules, one.core_mhz, one.memory_mhz) == (None, 2400, 1249)


def test_a_device_that_sleeps_is_not_woken(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.has("card0", {**AMD, "power/runtime_status": "suspended\n"})
    machine.has("card1", {**INTEL, "power/runtime_status": "suspended\n"})
    for one in machine.read():
        assert one.is_suspended
        assert (one.use, one.watts, one.temperature, one.core_mhz) == (None, None, None, None)


def test_what_the_kernel_shows_of_an_intel_device_and_the_programs_that_use_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    folder = machine.has("card0", INTEL)
    [one] = machine.read()
    assert (one.name, one.use, one.watts, one.throttled) == ("intel:0", None, None, {Throttle.HEAT})
    assert (one.temperature, one.watts_limit, one.core_mhz) == (58, 190, 2350)
    opened(machine.proc, 7, 3, XE.format(busy=1000, total=10000))
    machine.read()
    write(folder, {"hwmon/hwmon1/energy1_input": "1300000000\n"})
    (machine.proc / "7/fdinfo/3").write_text(XE.format(busy=3000, total=12500))
    [one] = machine.read()
    assert (one.use, one.watts) == (0.8, 150.0)
    two = "drm-engine-capacity-ccs: 2\n"
    (machine.proc / "7/fdinfo/3").write_text(XE.format(busy=3000, total=12500) + two)
    machine.read()
    (machine.proc / "7/fdinfo/3").write_text(XE.format(busy=5000, total=15000) + two)
    [one] = machine.read()
    assert one.use == pytest.approx(0.4), "of two engines"


def test_i915_counts_nanoseconds_of_each_engine(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    folder = machine.has("card0", {"vendor": "0x8086\n", "uevent": "DRIVER=i915\nPCI_SLOT_NAME=0000:07:00.0\n"})
    card = write(folder.parent, {"gt/gt0/rps_act_freq_mhz": "2050\n", "gt/gt0/throttle_reason_status": "0\n"})
    assert card.is_dir()
    facts = "drm-driver: i915\ndrm-pdev: 0000:07:00.0\ndrm-client-id: 5\ndrm-engine-capacity-video: 2\n"
    opened(machine.proc, 7, 3, facts + "drm-engine-render: 0 ns\ndrm-engine-video: 0 ns\n")
    machine.read()
    (machine.proc / "7/fdinfo/3").write_text(
        facts + "drm-engine-render: 500000000 ns\ndrm-engine-video: 2000000000 ns\n"
    )
    [one] = machine.read()
    assert one.use == pytest.approx(0.5), "two engines for video, of which one was busy"
    assert (one.core_mhz, one.throttled) == (2050, frozenset())


def test_a_machine_without_devices_has_none(tmp_path: Path) -> None:
    assert Machine(tmp_path).read() == ()
