"""Each back end: what a machine shows becomes devices and bytes; what it does not show stays unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.memory.device_trees import GIB, NVMLError, namespace, nvml, opened, write

from stoker.fleet.memory.devices import Accounting, Amd, Device, Intel, Machine, Nvidia, chosen
from stoker.fleet.memory.host import memory_in_use


def test_nvidia_shows_memory_capability_and_who_holds_how_much(tmp_path: Path) -> None:
    probe = Nvidia(nvml, tmp_path)
    assert probe.devices() == [
        Device(0, "GPU-a", "NVIDIA L4", "nvidia", 24 * GIB, 18 * GIB, "8.9", "570.1", "0000:41:00.0"),
    ]
    assert probe.by_process() == {4242: {"GPU-a": 6 * GIB}, 7: {"GPU-a": None}}
    assert probe.notes() == []


def test_what_one_nvidia_device_does_not_tell_is_unknown_and_never_0(tmp_path: Path) -> None:
    none = NVMLError("not supported")
    probe = Nvidia(
        lambda: nvml(nvmlDeviceGetMemoryInfo=none, nvmlDeviceGetCudaComputeCapability=none), tmp_path
    )  # fmt: skip
    [device] = probe.devices()
    assert (device.total, device.free, device.arch) == (None, None, None)
    silent = {"nvmlDeviceGetComputeRunningProcesses": none, "nvmlDeviceGetGraphicsRunningProcesses": none}
    assert Nvidia(lambda: nvml(**silent), tmp_path).by_process() is None


def test_without_a_library_or_a_driver_there_is_no_device_and_the_reason_is_said(tmp_path: Path) -> None:
    def absent() -> None:
        raise ImportError("no pynvml")

    probe = Nvidia(absent, tmp_path)
    assert (probe.devices(), probe.by_process(), probe.notes()) == ([], None, []), "no GPU: nothing to say"
    write(tmp_path, {"driver/nvidia/version": "570.1"})
    assert probe.devices() == []
    assert "pip install nvidia-ml-py" in probe.notes()[0]
    broken = Nvidia(lambda: nvml(nvmlInit=NVMLError("no driver")), tmp_path)
    assert broken.devices() == []
    assert "no driver answers (no driver)" in broken.notes()[0]


def test_a_driver_that_stops_answering_is_said_and_asked_again(tmp_path: Path) -> None:
    connected: list[None] = []
    library = nvml(nvmlInit=lambda: connected.append(None))
    probe = Nvidia(lambda: library, tmp_path)
    assert len(probe.devices()) == len(probe.devices()) == len(connected) == 1, "connected once"
    library.nvmlDeviceGetCount = nvml(nvmlDeviceGetCount=NVMLError("GPU is lost")).nvmlDeviceGetCount
    assert probe.devices() == []
    assert "GPU is lost" in probe.notes()[0]
    library.nvmlDeviceGetCount = lambda: 1
    assert len(probe.devices()) == 1
    assert len(connected) > 1, "connected again: a driver that was loaded anew knows nothing of us"


def test_in_a_container_process_numbers_of_the_host_are_not_taken_for_ours(tmp_path: Path) -> None:
    namespace(tmp_path / "outside", 4026531836)
    namespace(tmp_path / "inside", 4026532999)
    assert Nvidia(nvml, tmp_path / "outside").by_process() is not None
    probe = Nvidia(nvml, tmp_path / "inside")
    assert probe.by_process() is None
    assert "--pid=host" in probe.notes()[0]


AMD = {
    "class/drm/card1/device/vendor": "0x1002\n",
    "class/drm/card1/device/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n",
    "class/drm/card1/device/mem_info_vram_total": f"{16 * GIB}\n",
    "class/drm/card1/device/mem_info_vram_used": f"{5 * GIB}\n",
    "class/drm/card1/device/unique_id": "a1b2\n",
    "class/drm/card1-DP-1/status": "connected",
    "class/drm/card0/device/vendor": "0x1002\n",
    "class/drm/card0/device/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:0c:00.0\n",
    "class/drm/card0/device/mem_info_vram_total": f"{GIB // 2}\n",
    "class/kfd/kfd/topology/nodes/0/gpu_id": "0\n",
    "class/kfd/kfd/topology/nodes/1/gpu_id": "4711\n",
    "class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110001\nlocation_id 768\ndomain 0\n",
    "class/kfd/kfd/proc/900/vram_4711": f"{4 * GIB}\n",
}


def test_amd_shows_cards_with_memory_of_their_own_and_both_ways_of_using_it(tmp_path: Path) -> None:
    system, proc = write(tmp_path / "sys", AMD), tmp_path / "proc"
    opened(proc, 800, 5, "drm-pdev: 0000:03:00.0\ndrm-client-id: 1\ndrm-memory-vram:\t1048576 KiB\n")
    opened(proc, 900, 5, "drm-pdev: 0000:03:00.0\ndrm-client-id: 2\ndrm-memory-vram:\t1024 KiB\n")
    probe = Amd(system, proc)
    [device] = probe.devices()
    assert device == Device(
        0, "a1b2", "AMD GPU (gfx1101)", "amd", 16 * GIB, 11 * GIB, "gfx1101", "amdgpu", "0000:03:00.0", 0
    )
    assert probe.by_process() == {800: {"a1b2": GIB}, 900: {"a1b2": 4 * GIB}}


def test_a_gpu_inside_an_amd_processor_holds_models_in_main_memory_too(tmp_path: Path) -> None:
    files = {
        "class/drm/card1/device/hwmon/hwmon3/in1_label": "vddnb\n",
        "class/drm/card1/device/mem_info_gtt_total": f"{12 * GIB}\n",
        "class/drm/card1/device/mem_info_gtt_used": f"{GIB}\n",
    }
    facts = (
        f"drm-pdev: 0000:03:00.0\ndrm-client-id: 1\ndrm-memory-vram: {GIB >> 10} KiB\ndrm-memory-gtt: {GIB >> 9} KiB\n"
    )
    proc = tmp_path / "proc"
    opened(proc, 800, 5, facts)
    system = write(tmp_path / "sys", AMD | files)
    [inside] = Amd(system, proc).devices()
    assert (inside.total, inside.free) == (28 * GIB, 22 * GIB)
    assert (Amd(system, proc).by_process() or {})[800] == {"a1b2": 3 * GIB}
    write(system, {"class/drm/card1/device/hwmon/hwmon3/in1_label": "vddgfx\n"})
    assert Amd(system, proc).devices()[0].total == 16 * GIB, "a card only borrows main memory"
    assert (Amd(system, proc).by_process() or {})[800] == {"a1b2": GIB}


def test_a_client_with_several_descriptors_or_processes_is_counted_once(tmp_path: Path) -> None:
    system, proc = write(tmp_path / "sys", AMD), tmp_path / "proc"
    facts = "drm-pdev: 0000:03:00.0\ndrm-client-id: 9\ndrm-memory-vram: 512 KiB\n"
    for pid, descriptor in ((20, 3), (20, 4), (21, 3)):
        opened(proc, pid, descriptor, facts)
    opened(proc, 22, 3, facts.replace("id: 9", "id: 10"), device="/dev/null")
    (system / "class/kfd/kfd/proc/900/vram_4711").unlink()
    assert Amd(system, proc).by_process() == {20: {"a1b2": 512 * 1024}}


def test_intel_counts_resident_memory_of_every_tile_and_leaves_out_graphics_inside_the_processor(
    tmp_path: Path,
) -> None:
    place = "DRIVER=xe\nPCI_SLOT_NAME="
    system = write(
        tmp_path / "sys",
        {
            "class/drm/card0/device/vendor": "0x8086",
            "class/drm/card0/device/uevent": f"{place}0000:00:02.0",
            "class/drm/card1/device/vendor": "0x8086",
            "class/drm/card1/device/uevent": f"{place}0000:04:00.0",
        },
    )
    proc = tmp_path / "proc"
    facts = "drm-pdev: 0000:04:00.0\ndrm-client-id: 3\ndrm-total-vram0: 9 MiB\ndrm-resident-vram0: 8 MiB\n"
    opened(proc, 30, 3, facts + "drm-resident-vram1: 2 MiB\ndrm-resident-system: 99 MiB\ndrm-total-gtt: 5 KiB\n")
    probe = Intel(system, proc)
    [device] = probe.devices()
    assert (device.uuid, device.total, device.free) == ("0000:04:00.0", None, None)
    assert (device.index, device.number) == (0, 1), "the runtime counts those graphics, too"
    assert "does not show how much memory 0000:04:00.0 has" in probe.notes()[0]
    assert probe.by_process() == {30: {"0000:04:00.0": 10 * 2**20}}
    write(system, {"class/drm/card1/device/tile0/physical_vram_size_bytes": str(12 * GIB)})
    assert (probe.devices()[0].total, probe.notes()) == (12 * GIB, [])


def test_a_machine_without_cards_has_no_devices_and_no_accounting(tmp_path: Path) -> None:
    for probe in (Amd(tmp_path, tmp_path), Intel(tmp_path, tmp_path)):
        assert (probe.devices(), probe.by_process(), probe.notes()) == ([], None, [])


class Part:
    def __init__(self, device: Device | None, accounting: Accounting | None) -> None:
        self.device, self.accounting, self.source = device, accounting, "part"

    def devices(self) -> list[Device]:
        return [self.device] if self.device else []

    def by_process(self) -> Accounting | None:
        return self.accounting

    def notes(self) -> list[str]:
        return ["said"]


@pytest.mark.parametrize(
    ("parts", "accounting"),
    [
        ([({1: {"a": 5}}, "a"), ({1: {"b": 6}, 2: {"b": 7}}, "b")], {1: {"a": 5, "b": 6}, 2: {"b": 7}}),
        ([({1: {"a": 5}}, "a"), (None, "b")], None),
        ([({1: {"a": 5}}, "a"), (None, None)], {1: {"a": 5}}),
    ],
)
def test_one_silent_vendor_makes_the_whole_unknown_unless_it_has_no_devices(
    parts: list[tuple[Accounting | None, str | None]], accounting: Accounting | None
) -> None:
    probes = [Part(Device(0, uuid, uuid, "amd") if uuid else None, told) for told, uuid in parts]
    whole = Machine(probes)
    assert whole.by_process() == accounting
    assert whole.notes() == ["said"] * len(probes)
    assert whole.source == "part"


def test_memory_in_use_is_that_of_the_devices_that_tell_and_absent_without_one() -> None:
    cards = [Device(0, str(free), "T", "amd", 24 * GIB, free * GIB) for free in (20, 23)]
    whole = Machine([Part(card, None) for card in cards])
    assert memory_in_use(whole)["vram_used_bytes"] == 5 * GIB
    assert memory_in_use(Part(Device(0, "a", "A", "intel"), None))["vram_used_bytes"] is None
    assert memory_in_use(Machine(()))["vram_used_bytes"] is None
    assert (memory_in_use(Machine(()))["ram_used_bytes"] or 0) > 0


def test_a_slot_names_devices_by_index_or_uuid_and_means_all_when_it_names_none() -> None:
    devices = [Device(0, "GPU-a", "A", "nvidia"), Device(1, "GPU-b", "B", "nvidia")]
    assert chosen(devices, ("1",)) == devices[1:]
    assert chosen(devices, ("GPU-a",)) == devices[:1]
    assert chosen(devices, ()) == devices
    assert Machine(()).source == "none"
