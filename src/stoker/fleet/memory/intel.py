"""Intel discrete GPUs (i915, xe): cards from sysfs, processes from fdinfo."""

from __future__ import annotations

from pathlib import Path

from stoker.fleet.memory import drm
from stoker.fleet.memory.device import Accounting, Device

_INSIDE_THE_PROCESSOR = "0000:00:02.0"


class Intel:
    """A `DeviceProbe`. `system` is /sys, `proc` is /proc. Drivers that do not show a card's size leave it unknown."""

    source = "fdinfo"

    def __init__(self, system: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        self._system = system
        self._proc = proc

    def devices(self) -> list[Device]:
        numbers = {card.address: number for number, card in enumerate(self._all())}
        return [
            Device(
                index, card.address, "Intel GPU", "intel", _total(card), _free(card), None, card.driver, card.address,
                numbers[card.address],
            )
            for index, card in enumerate(self._cards())
        ]  # fmt: skip

    def by_process(self) -> Accounting | None:
        addresses = {card.address for card in self._cards()}
        return drm.process_memory(self._proc, addresses) if addresses else None

    def notes(self) -> list[str]:
        silent = [card.address for card in self._cards() if _total(card) is None]
        if not silent:
            return []
        return [
            f"intel: the driver does not show how much memory {', '.join(silent)} has: give the slot a `memory`, or "
            "`--device-memory` to `stoker fit`"
        ]

    def _cards(self) -> list[drm.Card]:
        return [card for card in self._all() if card.address != _INSIDE_THE_PROCESSOR]

    def _all(self) -> list[drm.Card]:
        return drm.cards(self._system / "class/drm", "intel")


def _total(card: drm.Card) -> int | None:
    """i915 shows one figure, xe one per tile."""
    whole = drm.number(card.path / "lmem_total_bytes")
    tiles = [drm.number(path) for path in card.path.glob("device/tile*/physical_vram_size_bytes")]
    return whole if whole is not None else sum(tile or 0 for tile in tiles) or None


def _free(card: drm.Card) -> int | None:
    return drm.number(card.path / "lmem_avail_bytes")
