"""The devices of this machine, with their number in every interface that engines count them by."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stoker.engines.masks import NATIVE, Card, MachineCards
from stoker.engines.record import Api
from stoker.fleet.memory import devices
from stoker.fleet.memory.devices import Amd, Apple, Device, Intel, Nvidia
from stoker.fleet.process.environment import child_environment

_TOOL = "vulkaninfo"
_ANSWERS_WITHIN = 10.0
_DEVICE = re.compile(r"GPU(\d+):\s*$")
_PLACE = re.compile(r"\s*pci(Domain|Bus|Device|Function)\s*=\s*(0x[0-9a-fA-F]+|\d+)")


def this_machine(with_vulkan: bool = True) -> MachineCards:
    """Blocks: up to seconds while a driver wakes. `with_vulkan`: also their numbers there, if there are several."""
    return look((*devices.probes(), Apple()), os.environ, vulkan_text if with_vulkan else lambda: "")


def look(
    probes: Sequence[Nvidia | Amd | Intel | Apple],
    environment: Mapping[str, str],
    ask_vulkan: Callable[[], str],
    system: Path = Path("/sys"),
) -> MachineCards:
    """The machine that the probes of all vendors show. `ask_vulkan`: what `vulkaninfo` prints; empty: nothing."""
    found = [device for probe in probes for device in probe.devices()]
    unseen = frozenset(probe.vendor for probe in probes if probe.misses())
    vulkan = vulkan_numbers(ask_vulkan()) if len(found) > 1 else {}
    return MachineCards(tuple(_card(device, vulkan, system) for device in found), unseen, environment)


def vulkan_numbers(said: str) -> dict[str, int]:
    """PCI address -> number, from what `vulkaninfo` prints. Of a card with two drivers, the first number."""
    numbers: dict[str, int] = {}
    number, place = -1, dict[str, int]()
    for line in said.splitlines():
        if (device := _DEVICE.match(line)) is not None:
            number, place = int(device[1]), {}
        elif (part := _PLACE.match(line)) is not None:
            place[part[1]] = int(part[2], 0)
            if len(place) == 4:
                address = f"{place['Domain']:04x}:{place['Bus']:02x}:{place['Device']:02x}.{place['Function']:x}"
                numbers.setdefault(address, number)
                place = {}
    return numbers


def vulkan_text() -> str:
    """What `vulkaninfo` prints in the environment that engines get: variables of the screen, loader and driver change
    the order.
    """
    program = shutil.which(_TOOL)
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program], env=child_environment(os.environ, {}, {}), capture_output=True, timeout=_ANSWERS_WITHIN,
            check=False, text=True, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _card(device: Device, vulkan: Mapping[str, int], system: Path) -> Card:
    native = NATIVE.get(device.vendor)
    numbers = {native: device.number} if native is not None and device.number is not None else {}
    if device.address in vulkan:
        numbers[Api.VULKAN] = vulkan[device.address]
    nodes = (system / "bus/pci/devices" / device.address / "drm").glob("renderD*") if device.address else ()
    node = next((f"/dev/dri/{found.name}" for found in nodes), "")
    return Card(
        device.vendor, device.index, device.uuid, device.address, device.name, device.driver, numbers, node
    )  # fmt: skip
