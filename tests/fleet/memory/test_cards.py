"""The devices of a machine, with their numbers by every interface."""

from __future__ import annotations

from pathlib import Path

from tests.fleet.memory.device_trees import NVMLError, nvml, write
from tests.fleet.memory.test_memory_probes import AMD

from stoker.engines.masks import MachineCards
from stoker.engines.record import Api
from stoker.fleet.memory.cards import look, vulkan_numbers
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
    assert (found.is_complete, found.environment) == (True, {"A": "b"})


def test_a_driver_that_does_not_answer_may_hide_cards(tmp_path: Path) -> None:
    found = machine(tmp_path, nvml(nvmlInit=NVMLError("off")))
    assert [card.vendor for card in found.cards] == ["amd"]
    assert not found.is_complete
