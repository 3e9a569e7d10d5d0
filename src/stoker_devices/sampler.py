"""Reads all devices of this machine, again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from stoker.fleet.memory import devices
from stoker.fleet.memory.devices import Amd, Intel, Nvidia
from stoker_devices import kernel, nvidia
from stoker_devices.reading import DeviceReading, completed, silent

log = logging.getLogger("stoker.devices")
EVERY = 2.0
"""Seconds between two readings."""
LOOK_AGAIN = 60.0
"""Seconds until a machine without devices is looked at again."""
MOST_OF_TIME = 0.05
"""Share of the time that reading may take: a slow driver is asked less often."""


def pause(has_devices: bool, took: float) -> float:
    """Seconds until the next reading, after one that took so long."""
    return max(EVERY, took / MOST_OF_TIME) if has_devices else LOOK_AGAIN


class Sampler:
    """`read` blocks, for ever if a driver hangs: call it in a thread of its own, one at a time."""

    def __init__(
        self,
        probes: tuple[Nvidia, Amd, Intel] | None = None,
        now: Callable[[], float] = time.monotonic,
        proc: Path = Path("/proc"),
    ) -> None:
        self._nvidia, self._amd, self._intel = probes or devices.probes()
        self._now = now
        self._proc = proc
        self._last: dict[str, DeviceReading] = {}
        self._failed: set[str] = set()
        """Vendors of which a reading has failed: the first of each is logged."""

    def read(self) -> tuple[DeviceReading, ...]:
        """Each device as it is now. One that was there before and does not answer has only its name."""
        at = self._now()
        found = [
            *self._of_vendor("NVIDIA", lambda: nvidia.read(self._nvidia, at)),
            *self._of_vendor("AMD", lambda: kernel.read_amd(self._amd, at)),
            *self._of_vendor("Intel", lambda: kernel.read_intel(self._intel, at, self._proc)),
        ]
        complete = [completed(self._last.get(one.name), one) for one in found]
        here = {one.name for one in complete}
        gone = [silent(one, at) for name, one in self._last.items() if name not in here]
        self._last = {one.name: one for one in (*complete, *gone)}
        return tuple(sorted(self._last.values(), key=lambda one: (one.device.vendor, one.device.index)))

    def _of_vendor(self, vendor: str, read: Callable[[], list[DeviceReading]]) -> list[DeviceReading]:
        """Empty if it fails: files of /sys come and go while they are read."""
        try:
            return read()
        except Exception as error:
            if vendor not in self._failed:
                log.warning("%s devices could not be read, and are again in a moment: %r", vendor, error)
            self._failed.add(vendor)
            return []


def all_silent(readings: Sequence[DeviceReading], at: float) -> tuple[DeviceReading, ...]:
    """What is known while a reading hangs."""
    return tuple(silent(one, at) for one in readings)
