"""A probe that combines the back ends of all vendors."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.fleet.memory.amd import Amd
from stoker.fleet.memory.device import Accounting, Device, DeviceProbe
from stoker.fleet.memory.intel import Intel
from stoker.fleet.memory.nvidia import Nvidia


class Machine:
    """All back ends as one probe. Devices keep their vendor's index."""

    def __init__(self, probes: Sequence[DeviceProbe]) -> None:
        self._probes = tuple(probes)

    @property
    def source(self) -> str:
        found = [probe.source for probe in self._probes if probe.devices()]
        return ", ".join(dict.fromkeys(found)) or "none"

    def devices(self) -> list[Device]:
        return [device for probe in self._probes for device in probe.devices()]

    def by_process(self) -> Accounting | None:
        """None if any vendor that has devices does not report: a part would look like the whole."""
        merged: dict[int, dict[str, int | None]] = {}
        for probe in self._probes:
            if not probe.devices():
                continue
            part = probe.by_process()
            if part is None:
                return None
            for pid, held in part.items():
                merged.setdefault(pid, {}).update(held)
        return merged

    def notes(self) -> list[str]:
        return [note for probe in self._probes for note in probe.notes()]


def machine() -> Machine:
    """The probe of this machine."""
    return Machine((Nvidia(), Amd(), Intel()))
