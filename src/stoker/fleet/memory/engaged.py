"""Which devices a serve uses: by the memory that it holds there, and by what its engine printed at its start. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from stoker.engines.start_log import PROCESSOR
from stoker.fleet.memory.devices import Accounting, Device

VENDORS: Mapping[str, frozenset[str]] = {
    "cuda": frozenset(("nvidia", "amd")),  # PyTorch calls both so
    "xpu": frozenset(("intel",)),
}


class EngagedDevices(NamedTuple):
    """Devices by their uuids. `used` None: unknown."""

    wanted: tuple[str, ...] = ()
    """Those that its slot gives it; empty: the slot names none, or the machine has none."""
    used: frozenset[str] | None = None
    problem: str = ""
    """What the engine printed of other devices; empty: nothing."""


NO_DEVICES = EngagedDevices()


def engaged(
    wanted: Sequence[Device], slot: Sequence[Device], present: Sequence[Device], said: str,
    accounting: Accounting | None, pids: Collection[int],
) -> EngagedDevices:  # fmt: skip
    """`wanted`: those of its slot that it needs. `said`: see `start_log.devices`."""
    uuids = tuple(device.uuid for device in wanted)
    if not uuids:
        return NO_DEVICES
    printed = _printed(said, present)
    measured = None if accounting is None else frozenset(uuid for pid in pids for uuid in accounting.get(pid, {}))
    return EngagedDevices(uuids, printed if measured is None else measured, _problem(said, slot, present))


def _printed(said: str, present: Sequence[Device]) -> frozenset[str] | None:
    at = {_place(device.address): device.uuid for device in present if device.address}
    places = [_place(word) for word in said.split(", ") if ":" in word]
    return frozenset(at[place] for place in places if place in at) if places and at else None


def _problem(said: str, slot: Sequence[Device], present: Sequence[Device]) -> str:
    """1. it computes on the processor  2. on another vendor's devices  3. on devices that its slot does not name"""
    given = _named(slot)
    if said == PROCESSOR:  # 1
        return f"its engine printed that it computes on the processor, and its slot gives it {given}"
    if said in VENDORS:
        if any(device.vendor in VENDORS[said] for device in slot):
            return ""
        return f"its engine printed that it computes with {said}, and its slot gives it {given}"  # 2
    if not said or not all(device.address for device in slot):
        return ""
    known = {_place(device.address): device for device in present if device.address}
    mine = {_place(device.address) for device in slot}
    others = [word for word in said.split(", ") if _place(word) not in mine]
    if not others:
        return ""
    names = ", ".join(_named([known[_place(word)]]) if _place(word) in known else word for word in others)
    return f"its engine printed that it uses {names}, and its slot gives it {given}"  # 3


def _named(devices: Sequence[Device]) -> str:
    return ", ".join(f"{device.vendor}:{device.index} ({device.name})" for device in devices)


def _place(address: str) -> tuple[int, str]:
    """Some write the domain of a PCI address with four digits, some with eight, some not at all."""
    *domain, bus, rest = address.lower().split(":")
    return int(domain[0], 16) if domain else 0, f"{bus}:{rest}"
