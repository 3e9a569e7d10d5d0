"""Accelerators with memory of their own, and the protocol of the vendors' back ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from stoker.engines.masks import names_device

Accounting = Mapping[int, Mapping[str, int | None]]
"""Process number -> device uuid -> bytes; None: it holds some memory, of unknown size."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator with memory of its own. Bytes; None is unknown."""

    index: int
    """Position in PCI order among the vendor's devices."""
    uuid: str
    name: str
    vendor: str
    """`nvidia`, `amd` or `intel`."""
    total: int | None = None
    free: int | None = None
    arch: str | None = None
    """NVIDIA: compute capability (`8.9`). AMD: `gfx1100`."""
    driver: str | None = None
    address: str = ""
    """Its place on the PCI bus (`0000:03:00.0`); empty: unknown."""
    number: int | None = None
    """Its position among all devices that the vendor's own runtime counts, which include graphics inside a processor;
    None: unknown.
    """

    def is_named(self, word: str) -> bool:
        """Whether an entry of a slot's `devices` means this device; see `masks.names_device`."""
        return names_device(word, self.vendor, self.index, self.uuid, self.address)


class DeviceProbe(Protocol):
    """One vendor's devices. Calls take milliseconds and block if a driver hangs: do not call them on the event loop."""

    @property
    def source(self) -> str:
        """The name of its source: `NVML`, `fdinfo`."""

    def devices(self) -> list[Device]:
        """Empty if there is no device, or no device answers; `notes` says why."""

    def by_process(self) -> Accounting | None:
        """The memory that each process holds. None: this machine does not report it."""

    def notes(self) -> list[str]:
        """Why devices that may exist are not shown: one sentence each, with the next step."""


def chosen(devices: Sequence[Device], words: Sequence[str]) -> list[Device]:
    """The devices that a slot names; all of them if it names none."""
    return [d for d in devices if any(d.is_named(word) for word in words)] if words else list(devices)
