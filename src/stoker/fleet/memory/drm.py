"""What the kernel reports about graphics cards: the cards in sysfs, and the memory of each process in fdinfo."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_REGION = re.compile(r"^drm-(?P<kind>resident|memory|total)-(?P<region>(?:vram|local)\d*)$")
_PREFERRED = ("resident", "memory", "total")
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}


@dataclass(frozen=True, slots=True)
class Card:
    """One card. `address` is its place on the PCI bus (`0000:03:00.0`)."""

    path: Path
    address: str
    driver: str | None


def cards(drm: Path, vendor: str) -> list[Card]:
    """The vendor's cards under /sys/class/drm, in PCI order."""
    found = []
    for entry in drm.glob("card*"):
        device = entry / "device"
        if not entry.name[4:].isdigit() or VENDORS.get(word(device / "vendor") or "") != vendor:
            continue
        facts = dict(line.partition("=")[::2] for line in (word(device / "uevent") or "").splitlines())
        found.append(Card(entry, facts.get("PCI_SLOT_NAME", entry.name), facts.get("DRIVER")))
    return sorted(found, key=lambda card: card.address)


def process_memory(proc: Path, addresses: Collection[str]) -> dict[int, dict[str, int | None]] | None:
    """Device memory per process and card, from /proc/PID/fdinfo; only root sees the processes of other users. None: no
    process list at all.

    One client (an open device file) may be held by several descriptors and, after a fork, several processes: it is
    counted once, for the lowest number.
    """
    if not proc.is_dir():
        return None
    seen: set[tuple[str, str]] = set()
    found: dict[int, dict[str, int | None]] = {}
    for pid in sorted(int(entry) for entry in os.listdir(proc) if entry.isdigit()):
        for facts in _clients(proc / str(pid)):
            address, client = facts.get("drm-pdev", ""), facts.get("drm-client-id", "")
            if address not in addresses or (client and (address, client) in seen):
                continue
            seen.add((address, client))
            size = _memory(facts)
            if size is not None:
                mine = found.setdefault(pid, {})
                mine[address] = (mine.get(address) or 0) + size
    return found


def _clients(process: Path) -> Iterator[dict[str, str]]:
    try:
        descriptors = os.listdir(process / "fd")
    except OSError:
        return  # gone, or not readable by this user
    for number in descriptors:
        with contextlib.suppress(OSError):
            if os.readlink(process / "fd" / number).startswith("/dev/dri/"):
                lines = (process / "fdinfo" / number).read_text("ascii", "replace").splitlines()
                yield {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _memory(facts: dict[str, str]) -> int | None:
    """Bytes in all regions of device memory: resident if the driver reports it, else total."""
    regions: dict[str, dict[str, int]] = {}
    for key, value in facts.items():
        match = _REGION.match(key)
        size = _size(value) if match else None
        if match and size is not None:
            regions.setdefault(match["region"], {})[match["kind"]] = size
    if not regions:
        return None
    return sum(next(kinds[kind] for kind in _PREFERRED if kind in kinds) for kinds in regions.values())


def _size(text: str) -> int | None:
    number, _, unit = text.partition(" ")
    return int(number) * _UNITS[unit] if number.isdigit() and unit in _UNITS else None


def word(path: Path) -> str | None:
    """The text of a small kernel file; None if this kernel or driver does not have it."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    text = word(path)
    return int(text) if text is not None and text.isdigit() else None
