"""The devices of a machine, with their numbers by every interface."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fleet.memory.device_trees import NVMLError, nvml, write
from tests.fleet.memory.test_memory_probes import AMD

from stoker.engines.masks import MachineCards
from stoker.engines.record import Api
from stoker.fleet.memory.cards import look, vulkan_numbers, vulkan_text
from stoker.fleet.memory.devices import Amd, Intel, Nvidia

VULKANINFO = """\
Device Properties and Extensions:
=================================
GPU0:
VkPhysicalDeviceProperties:
---------------------------
\tdeviceType        = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
\tdeviceName        = NVIDIA L4
VkPhysicalDevicePCIBusInfoPropertiesEXT:
----------------------------------------
\tpciDomain   = 0
\tpciBus      = 65
\tpciDevice   = 0
\tpciFunction = 0

GPU1:
VkPhysicalDevicePCIBusInfoPropertiesEXT:
----------------------------------------
\tpciDomain   = 0
\tpciBus      = 3
\tpciDevice   = 0
\tpciFunction = 0

GPU2:
VkPhysicalDevicePCIBusInfoPropertiesEXT:
----------------------------------------
\tpciDomain   = 0
\tpciBus      = 3
\tpciDevice   = 0
\tpciFunction = 0

GPU3:
VkPhysicalDeviceProperties:
---------------------------
\tdeviceType        = PHYSICAL_DEVICE_TYPE_CPU
\tdeviceName        = llvmpipe (LLVM 17.0.6, 256 bits)
"""


def test_vulkan_counts_the_second_driver_of_a_card_and_the_processor_too() -> None:
    assert vulkan_numbers(VULKANINFO) == {"0000:41:00.0": 0, "0000:03:00.0": 1}
    assert vulkan_numbers("") == {}


def machine(tmp_path: Path, library: object, said: str = VULKANINFO) -> MachineCards:
    files = {
        **AMD,
        "class/kfd/kfd/topology/nodes/10/gpu_id": "4712\n",
        "class/kfd/kfd/topology/nodes/10/properties": "gfx_target_version 110001\nlocation_id 768\ndomain 0\n",
        "class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 100306\nlocation_id 3072\ndomain 0\n",
        "bus/pci/devices/0000:03:00.0/drm/renderD129/dev": "",
    }
    system, proc = write(tmp_path / "sys", files), write(tmp_path / "proc", {"driver/nvidia/version": ""})
    probes = (Nvidia(lambda: library, proc), Amd(system, proc), Intel(system, proc))
    return look(probes, {"A": "b"}, lambda: said, system)


def test_each_card_has_its_address_node_and_numbers(tmp_path: Path) -> None:
    found = machine(tmp_path, nvml())
    l4, radeon = found.cards
    assert (l4.vendor, l4.index, l4.uuid, l4.address, l4.numbers) == (
        "nvidia", 0, "GPU-a", "0000:41:00.0", {Api.VULKAN: 0}
    )  # fmt: skip
    assert (radeon.uuid, radeon.address, radeon.node) == ("a1b2", "0000:03:00.0", "/dev/dri/renderD129")
    assert radeon.numbers == {Api.HIP: 1, Api.VULKAN: 1}, "the processor's graphics are HIP 0; nodes in their order"
    assert (found.unseen, found.environment) == (frozenset(), {"A": "b"})


def test_a_driver_that_does_not_answer_may_hide_cards(tmp_path: Path) -> None:
    found = machine(tmp_path, nvml(nvmlInit=NVMLError("off")))
    assert [card.vendor for card in found.cards] == ["amd"]
    assert found.unseen == {"nvidia"}


def test_one_gpu_that_fell_off_the_bus_takes_no_other_with_it(tmp_path: Path) -> None:
    def uuid(handle: int) -> str:
        if handle == 1:
            raise NVMLError("GPU is lost")
        return f"GPU-{handle}"

    probe = Nvidia(lambda: nvml(nvmlDeviceGetCount=lambda: 3, nvmlDeviceGetUUID=uuid), tmp_path)
    assert [(device.index, device.uuid) for device in probe.devices()] == [(0, "GPU-0"), (2, "GPU-2")]
    assert set((probe.by_process() or {})[4242]) == {"GPU-0", "GPU-2"}
    assert "device 1 does not answer (GPU is lost)" in probe.notes()[0]
    assert look((probe,), {}, lambda: "").unseen == {"nvidia"}


def missing() -> object:
    raise ImportError


@pytest.mark.parametrize(("name", "unseen"), [("dxg", {"nvidia"}), ("nvidiactl", {"nvidia"}), ("null", set())])
def test_without_the_library_nvidia_devices_may_be_there_wherever_their_driver_is(
    tmp_path: Path, name: str, unseen: set[str]
) -> None:
    dev = write(tmp_path / "dev", {name: ""})
    assert look((Nvidia(missing, tmp_path, dev),), {}, lambda: "").unseen == unseen


def test_vulkan_counts_for_the_environment_that_engines_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "vulkaninfo"
    tool.write_text('#!/bin/sh\necho "$VK_INSTANCE_LAYERS $DISPLAY"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("DISPLAY", "VK_INSTANCE_LAYERS"):
        monkeypatch.setenv(name, "VK_LAYER_that_sorts")
    assert vulkan_text().split() == []
