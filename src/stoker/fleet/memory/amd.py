"""AMD: cards and their memory from sysfs, processes from the compute driver (kfd) and from fdinfo."""

from __future__ import annotations

from pathlib import Path

from stoker.fleet.memory import drm
from stoker.fleet.memory.device import Accounting, Device

SMALLEST = 2 * 2**30
"""A card with less memory than this is integrated graphics, without room for a model."""


class Amd:
    """A `DeviceProbe`. `system` is /sys, `proc` is /proc."""

    source = "fdinfo"

    def __init__(self, system: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        self._system = system
        self._proc = proc

    def devices(self) -> list[Device]:
        nodes = self._nodes()
        archs = {address: arch for address, (_, arch) in nodes.items()}
        numbers = {address: number for number, address in enumerate(nodes)}
        return [
            self._device(index, card, archs.get(card.address), numbers.get(card.address))
            for index, card in enumerate(self._cards())
        ]

    def by_process(self) -> Accounting | None:
        cards = {card.address: _uuid(card) for card in self._cards()}
        if not cards:
            return None
        shown = drm.process_memory(self._proc, cards)
        if shown is None:
            return None
        found = {pid: {cards[address]: size for address, size in held.items()} for pid, held in shown.items()}
        for gpu, uuid in {gpu: cards[at] for at, (gpu, _) in self._nodes().items() if at in cards}.items():
            for path in self._kfd().glob(f"proc/[0-9]*/vram_{gpu}"):
                size = drm.number(path)
                if size:
                    mine = found.setdefault(int(path.parent.name), {})
                    mine[uuid] = max(mine.get(uuid) or 0, size)  # some kernels show compute memory in both places
        return found

    def notes(self) -> list[str]:
        return []

    def _cards(self) -> list[drm.Card]:
        found = drm.cards(self._system / "class/drm", "amd")
        return [card for card in found if (_total(card) or 0) >= SMALLEST]

    def _device(self, index: int, card: drm.Card, arch: str | None, number: int | None) -> Device:
        total, used = _total(card), drm.number(card.path / "device/mem_info_vram_used")
        name = drm.word(card.path / "device/product_name") or (f"AMD GPU ({arch})" if arch else "AMD GPU")
        free = max(0, total - used) if total is not None and used is not None else None
        return Device(index, _uuid(card), name, "amd", total, free, arch, card.driver, card.address, number)

    def _kfd(self) -> Path:
        return self._system / "class/kfd/kfd"

    def _nodes(self) -> dict[str, tuple[int, str]]:
        """PCI address -> the compute driver's number of the GPU, and its architecture; in the driver's order."""
        found = {}
        nodes = [node for node in self._kfd().glob("topology/nodes/*") if node.name.isdigit()]
        for node in sorted(nodes, key=lambda node: int(node.name)):
            lines = (drm.word(node / "properties") or "").splitlines()
            facts = {key: int(value) for key, _, value in (line.partition(" ") for line in lines) if value.isdigit()}
            gpu, version = drm.number(node / "gpu_id"), facts.get("gfx_target_version", 0)
            if gpu and version:  # CPUs are nodes, too, with 0 for both
                place = facts.get("location_id", 0)
                address = f"{facts.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"
                found[address] = (gpu, f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}")
        return found


def _total(card: drm.Card) -> int | None:
    return drm.number(card.path / "device/mem_info_vram_total")


def _uuid(card: drm.Card) -> str:
    return drm.word(card.path / "device/unique_id") or card.address
