"""Usual machines, as their kernels and drivers show them: for tests of what their owners see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

from tests.fleet.memory.device_trees import GIB, nvml, write

from stoker.fleet.memory import devices
from stoker.fleet.memory.devices import Amd, Intel, Nvidia


def drm(number: int, vendor: str, place: str, driver: str, **files: str) -> dict[str, str]:
    """What the kernel shows of a card; in names of files `__` stands for a slash."""
    device = f"class/drm/card{number}/device"
    facts = {"vendor": vendor, "uevent": f"DRIVER={driver}\nPCI_SLOT_NAME={place}\n"} | files
    return {f"{device}/{name.replace('__', '/')}": text for name, text in facts.items()}


def vulkaninfo(*places: str) -> str:
    """What it prints of devices at these PCI addresses, in this order."""
    text = ""
    for number, place in enumerate(places):
        bus = int(place.split(":")[1], 16)
        text += f"GPU{number}:\n\tpciDomain = 0\n\tpciBus = {bus}\n\tpciDevice = 0\n\tpciFunction = 0\n"
    return text


def two_of_intel() -> dict[str, str]:
    """The first says how much memory it has, and how warm it is; the graphics inside the processor are no card."""
    sensors = {"hwmon__hwmon2__temp2_input": "51000", "hwmon__hwmon2__temp2_crit": "100000"}
    return {
        **drm(0, "0x8086", "0000:00:02.0", "i915"),
        **drm(1, "0x8086", "0000:04:00.0", "xe", tile0__physical_vram_size_bytes=str(12 * GIB), **sensors),
        **drm(2, "0x8086", "0000:08:00.0", "xe"),
    }


def two_of_amd() -> dict[str, str]:
    """Beside graphics inside the processor, which HIP counts first."""
    cards = (("0000:03:00.0", "a1b2"), ("0000:0c:00.0", "c3d4"))
    found: dict[str, str] = {}
    for number, (place, unique) in enumerate(cards, start=1):
        size = str(20 * GIB)
        found |= drm(number, "0x1002", place, "amdgpu", mem_info_vram_total=size, mem_info_vram_used="0",
                     unique_id=unique, product_name="RX 7900 XT")  # fmt: skip
    for node, place in enumerate(("0000:c4:00.0", *(place for place, _ in cards)), start=1):
        where, at = f"class/kfd/kfd/topology/nodes/{node}", int(place.split(":")[1], 16) << 8
        found |= {
            f"{where}/gpu_id": str(node),
            f"{where}/properties": f"gfx_target_version 110000\nlocation_id {at}\ndomain 0\n",
        }
    return found


def amd_graphics(own: int) -> dict[str, str]:
    """Those inside a processor, to which its firmware gave so many bytes of main memory."""
    memory = {
        "mem_info_vram_total": own, "mem_info_vram_used": GIB // 4, "mem_info_gtt_total": 14 * GIB,
        "mem_info_gtt_used": GIB,
    }  # fmt: skip
    return {
        **drm(0, "0x1002", "0000:c4:00.0", "amdgpu", hwmon__hwmon4__in1_label="vddnb\n",
              gpu_busy_percent="37", **{name: str(size) for name, size in memory.items()}),
        "class/kfd/kfd/topology/nodes/1/gpu_id": "4711",
        "class/kfd/kfd/topology/nodes/1/properties": f"gfx_target_version 110003\nlocation_id {0xC400}\ndomain 0\n",
    }  # fmt: skip


GAMING = (("RTX 3060", 12, "0000:01:00.0", "GPU-11aa"), ("RTX 4090", 24, "0000:41:00.0", "GPU-22bb"))


def unequal() -> object:
    return nvml(
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetUUID=lambda card: GAMING[card][3],
        nvmlDeviceGetName=lambda card: GAMING[card][0],
        nvmlDeviceGetPciInfo=lambda card: SimpleNamespace(busId=GAMING[card][2]),
        nvmlDeviceGetMemoryInfo=lambda card: SimpleNamespace(total=GAMING[card][1] * GIB, free=GAMING[card][1] * GIB),
        nvmlDeviceGetTemperature=lambda card, sensor: 40 + card,
    )


def radeon() -> dict[str, str]:
    return drm(0, "0x1002", "0000:03:00.0", "amdgpu", mem_info_vram_total=str(20 * GIB), mem_info_vram_used="0",
               unique_id="a1b2", product_name="RX 7900 XT")  # fmt: skip


KINDS: Mapping[str, Callable[[], tuple[dict[str, str], object]]] = {
    "two cards of Intel": lambda: (two_of_intel(), None),
    "a GPU inside the processor": lambda: (amd_graphics(4 * GIB), None),
    "two unequal cards of NVIDIA": lambda: ({}, unequal()),
}
"""What the kernel shows, and NVIDIA's library."""


def become(kind: str, folder: Path) -> None:
    """This process sees that machine from now on. For `Plane.start(prepare=...)`."""
    system, library = KINDS[kind]()

    def load() -> object:
        if library is None:
            raise ImportError
        return library

    tree, proc = write(folder / "sys", system), folder / "proc"
    proc.mkdir()
    probes = Nvidia(load, proc, folder / "dev"), Amd(tree, proc), Intel(tree, proc)
    devices.probes = lambda: probes
