"""The mean power with which each slot works, from which follows the energy of requests. Pure.

Devices report the power of the whole device only. The rule, each time that power is sampled:

1. a device's power is divided equally among the slots that are busy on it. As `accelerator_seconds` divides the time of
   a slot, this divides a device in time: whoever has requests under way counts the same, whatever they do
2. a slot's power is the sum of its parts of all its devices. It is unknown if that of one device is
3. what a device takes while no slot is busy on it counts for nobody
4. the mean is over the slot's busy time of about the last minute, so a request's energy is its `accelerator_seconds`
   times that mean

Kepler (sustainable-computing.io) divides the power above idle by the use of each process and the idle power equally;
drivers tell the use by process only on some devices, so both are divided equally here. A device that others use, too,
counts as if Stoker's slots took all of it. Processors, memory and fans of the machine are not in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

HALF_LIFE = 60.0
"""Busy seconds after which a sample counts half."""


class SlotPower:
    """By slot."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, float]] = {}
        """Joules and busy seconds, older ones for less."""

    def add(self, seconds: float, watts: Mapping[str, float | None], busy: Mapping[str, Collection[str]]) -> None:
        """`seconds` have passed since the last call. `watts`: by device. `busy`: the devices of each slot that has
        requests under way; none, if it is not known which.
        """
        users = [name for devices in busy.values() for name in devices]
        for slot, devices in busy.items():
            parts = [watts.get(name) for name in devices]
            if not parts or None in parts:
                self._sums.pop(slot, None)
                continue
            power = sum((watts[name] or 0.0) / users.count(name) for name in devices)
            fade = 0.5 ** (seconds / HALF_LIFE)
            joules, busy_for = self._sums.get(slot, (0.0, 0.0))
            self._sums[slot] = joules * fade + power * seconds, busy_for * fade + seconds

    def watts(self, slot: str) -> float | None:
        """None: unknown, since it has not been seen busy yet, or a device does not report its power."""
        joules, seconds = self._sums.get(slot, (0.0, 0.0))
        return joules / seconds if seconds > 0 else None
