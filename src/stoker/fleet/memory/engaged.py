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
    """Those that its slot gives it; empty: the slot names none, the machine has none, or the serve chooses itself."""
    used: frozenset[str] | None = None
    problem: str = ""
    """What the engine printed of other devices; empty: nothing."""


NO_DEVICES = EngagedDevices()


def engaged(
    wanted: Sequence[Device], slot: Sequence[Device], present: Sequence[Device], said: str,
    accounting: Accounting | None, pids: Collection[int], is_whole_slot: bool = True, may_miss: bool = False,
) -> EngagedDevices:  # fmt: skip
    """`wanted`: those of its slot that it needs. `said`: see `start_log.devices`. `is_whole_slot`: whether every word
    of its slot names one of `slot`. `may_miss`: the machine may have devices that are not `present`.

    What is measured precedes what was printed. Without both, what it uses is unknown: a driver lists no processes of
    other users, and an engine may print less than it uses.
    """
    uuids = tuple(device.uuid for device in wanted)
    if not uuids:
        return NO_DEVICES
    measured = frozenset(uuid for pid in pids for uuid in (accounting or {}).get(pid, {}))
    printed = _printed(said, present)
    used = measured or (printed if printed.issuperset(uuids) else None)
    problem = _problem(said, slot, present, is_whole_slot, may_miss)
    if problem and measured.issuperset(uuids) and (said == PROCESSOR or said in VENDORS):
        problem = ""
    return EngagedDevices(uuids, used, problem)


def _printed(said: str, present: Sequence[Device]) -> frozenset[str]:
    at = {_place(device.address): device.uuid for device in present if device.address}
    places = [_place(word) for word in said.split(", ") if ":" in word]
    return frozenset(at[place] for place in places if place in at)


def _problem(said: str, slot: Sequence[Device], present: Sequence[Device], is_whole_slot: bool, may_miss: bool) -> str:
    """1. it computes on the processor  2. on another vendor's devices  3. on devices that its slot does not name

    Neither 2 nor 3 if the slot may mean a device that is not shown.
    """
    given = _named(slot)
    if said == PROCESSOR:  # 1
        return f"its engine printed that it computes on the processor, and its slot gives it {given}"
    if not is_whole_slot:
        return ""
    if said in VENDORS:
        if may_miss or any(device.vendor in VENDORS[said] for device in slot):
            return ""
        return f"its engine printed that it computes with {said}, and its slot gives it {given}"  # 2
    if not said or not all(device.address for device in slot):
        return ""
    known = {_place(device.address): device for device in present if device.address}
    mine = {_place(device.address) for device in slot}
    others = [word for word in said.split(", ") if _place(word) not in mine]
    if not others or (may_miss and any(_place(word) not in known for word in others)):
        return ""
    names = ", ".join(_named([known[_place(word)]]) if _place(word) in known else word for word in others)
    return f"its engine printed that it uses {names}, and its slot gives it {given}"  # 3


def _named(devices: Sequence[Device]) -> str:
    return ", ".join(f"{device.vendor}:{device.index} ({device.name})" for device in devices)


def _place(address: str) -> tuple[int, str]:
    """Some write the domain of a PCI address with four digits, some with eight, some not at all. Only the last four
    count: see `Nvidia._address`.
    """
    *domain, bus, rest = address.lower().split(":")
    return int(domain[0], 16) & 0xFFFF if domain else 0, f"{bus}:{rest}"
