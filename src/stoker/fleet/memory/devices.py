"""The accelerators of this machine, their memory, and which process holds how much of it.

Each vendor's back end is a `DeviceProbe`: NVIDIA through NVML (the package `nvidia-ml-py`, module `pynvml`), AMD by
sysfs, the compute driver (kfd) and fdinfo, Intel's discrete GPUs (i915, xe) by sysfs and fdinfo. `machine` combines
them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stoker.engines.masks import names_device
from stoker.system import memory
from stoker.system.identity import is_macos

Accounting = Mapping[int, Mapping[str, int | None]]
"""Process number -> device uuid -> bytes; None: it holds some memory, of unknown size."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator with memory of its own, or with a part of main memory (`is_unified`). Bytes; None is unknown."""

    index: int
    """Position in PCI order among the vendor's devices."""
    uuid: str
    name: str
    vendor: str
    """`nvidia`, `amd`, `intel` or `apple`."""
    total: int | None = None
    free: int | None = None
    arch: str | None = None
    """NVIDIA: compute capability (`8.9`). AMD: `gfx1100`."""
    driver: str | None = None
    address: str = ""
    """Its place on the PCI bus (`0000:03:00.0`); empty: unknown."""
    number: int | None = None
    """Its position among all devices that the vendor's own runtime counts, which include graphics inside a processor;
    None: as `index`.
    """

    bandwidth: int | None = None
    """Bytes per second that its memory can be read with, by what its driver says."""
    is_unified: bool = False
    """Its memory is main memory: `total` is how much of that it may take, and whatever else runs takes of it, too."""

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

    def misses(self) -> bool:
        """Whether devices may be there that `devices` does not show."""

    def by_process(self) -> Accounting | None:
        """The memory that each process holds. None: this machine does not report it."""

    def notes(self) -> list[str]:
        """Why devices that may exist are not shown: one sentence each, with the next step."""


def chosen(devices: Sequence[Device], words: Sequence[str]) -> list[Device]:
    """The devices that a slot names; all of them if it names none."""
    return [d for d in devices if any(d.is_named(word) for word in words)] if words else list(devices)


VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_REGION = re.compile(r"^drm-(?P<kind>resident|memory|total)-(?P<region>(?:vram|local|gtt)\d*)$")
_SHARED = "gtt"
"""The region of main memory: for a GPU inside the processor it is as good as the other."""
_PREFERRED = ("resident", "memory", "total")
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20}


@dataclass(frozen=True, slots=True)
class DrmCard:
    """One card. `address` is its place on the PCI bus (`0000:03:00.0`)."""

    path: Path
    address: str
    driver: str | None


def drm_cards(drm: Path, vendor: str) -> list[DrmCard]:
    """The vendor's cards under /sys/class/drm, in PCI order."""
    found = []
    for entry in drm.glob("card*"):
        device = entry / "device"
        if not entry.name[4:].isdigit() or VENDORS.get(read_word(device / "vendor") or "") != vendor:
            continue
        facts = dict(line.partition("=")[::2] for line in (read_word(device / "uevent") or "").splitlines())
        found.append(DrmCard(entry, facts.get("PCI_SLOT_NAME", entry.name), facts.get("DRIVER")))
    return sorted(found, key=lambda card: card.address)


def fdinfo_memory(
    proc: Path, addresses: Collection[str], shared: Collection[str] = ()
) -> dict[int, dict[str, int | None]] | None:
    """Device memory per process and card, from /proc/PID/fdinfo; only root sees the processes of other users. None: no
    process list at all. `shared`: addresses of the cards that use main memory as their own.

    One client (an open device file) may be held by several descriptors and, after a fork, several processes: it is
    counted once, for the lowest read_number.
    """
    if not proc.is_dir():
        return None
    seen: set[tuple[str, str]] = set()
    found: dict[int, dict[str, int | None]] = {}
    for pid in sorted(int(entry) for entry in os.listdir(proc) if entry.isdigit()):
        for facts in drm_clients(proc / str(pid)):
            address, client = facts.get("drm-pdev", ""), facts.get("drm-client-id", "")
            if address not in addresses or (client and (address, client) in seen):
                continue
            seen.add((address, client))
            size = _memory(facts, address in shared)
            if size is not None:
                mine = found.setdefault(pid, {})
                mine[address] = (mine.get(address) or 0) + size
    return found


def drm_clients(process: Path) -> Iterator[dict[str, str]]:
    """What the kernel says of each file of a graphics device that this process has open."""
    try:
        descriptors = os.listdir(process / "fd")
    except OSError:
        return  # gone, or not readable by this user
    for read_number in descriptors:
        with contextlib.suppress(OSError):
            if os.readlink(process / "fd" / read_number).startswith("/dev/dri/"):
                lines = (process / "fdinfo" / read_number).read_text("ascii", "replace").splitlines()
                yield {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _memory(facts: dict[str, str], has_shared: bool) -> int | None:
    """Bytes in all regions of device memory: resident if the driver reports it, else total."""
    regions: dict[str, dict[str, int]] = {}
    for key, value in facts.items():
        match = _REGION.match(key)
        size = _size(value) if match else None
        if match and size is not None and (has_shared or not match["region"].startswith(_SHARED)):
            regions.setdefault(match["region"], {})[match["kind"]] = size
    if not regions:
        return None
    return sum(next(kinds[kind] for kind in _PREFERRED if kind in kinds) for kinds in regions.values())


def _size(text: str) -> int | None:
    read_number, _, unit = text.partition(" ")
    return int(read_number) * _UNITS[unit] if read_number.isdigit() and unit in _UNITS else None


def read_word(path: Path) -> str | None:
    """The text of a small kernel file; None if this kernel or driver does not have it."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    text = read_word(path)
    return int(text) if text is not None and text.isdigit() else None


INITIAL_NAMESPACE = "pid:[4026531836]"
"""The kernel's fixed number of the initial process namespace, which NVML's process numbers belong to."""


def _import() -> Any:
    return importlib.import_module("pynvml")


class Nvidia:
    """A `DeviceProbe`. NVML is loaded and initialised at the first question; without it there are no devices.

    `load` returns the module `pynvml`; `proc` is where the kernel shows processes, `dev` where it shows devices.
    """

    source = "NVML"
    vendor = "nvidia"

    def __init__(self, load: Callable[[], Any] = _import, proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> None:
        self._load = load
        self._proc = proc
        self._dev = dev
        self._nvml: Any = None
        self._why = ""

    def devices(self) -> list[Device]:
        return [self._device(index, uuid, handle) for index, uuid, handle in self.handles()]

    def misses(self) -> bool:
        """See `DeviceProbe`. On WSL only the library shows any."""
        self.handles()
        if self._nvml is not None:
            return bool(self._why)
        signs = (self._proc / "driver/nvidia", self._dev / "nvidiactl", self._dev / "dxg")
        return any(sign.exists() for sign in signs)

    def by_process(self) -> Accounting | None:
        handles = self.handles()
        if self._nvml is None or not self._counts_our_numbers():
            return None
        held: dict[int, dict[str, int | None]] = {}
        for _, uuid, handle in handles:
            lists = [self.ask(name, handle) for name in ("nvmlDeviceGetComputeRunningProcesses",
                                                          "nvmlDeviceGetGraphicsRunningProcesses")]  # fmt: skip
            if all(found is None for found in lists):
                return None
            for process in (entry for found in lists for entry in found or ()):
                # A process in both lists is shown with the same bytes in each.
                held.setdefault(int(process.pid), {})[uuid] = _bytes(process.usedGpuMemory)
        return held

    def notes(self) -> list[str]:
        handles = self.handles()
        if self._why:
            return [self._why]
        if handles and not self._counts_our_numbers():
            return [
                "nvidia: memory per process is unknown, since the driver counts processes of the host and this is "
                "a container: run it in the host's pid namespace (`docker run --pid=host`)"
            ]
        return []

    def handles(self) -> list[tuple[int, str, Any]]:
        """Index, uuid and NVML's handle of each device that answers."""
        if self._nvml is None:
            self._connect()
        if self._nvml is None:
            return []
        found: list[tuple[int, str, Any]] = []
        errors: dict[int | None, Exception] = {}
        try:
            indices = range(self._nvml.nvmlDeviceGetCount())
        except self._nvml.NVMLError as error:
            indices, errors = range(0), {None: error}
        for index in indices:
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                found.append((index, _text(self._nvml.nvmlDeviceGetUUID(handle)), handle))
            except self._nvml.NVMLError as error:  # it fell off the bus; the others work on
                errors[index] = error
        who = f"device {', '.join(map(str, errors))}" if found else "the driver"
        what = "does not answer" if found else "stopped answering"
        self._why = "".join(
            f"nvidia: {who} {what} ({error}): see `nvidia-smi`, and `dmesg` for Xid errors"
            for error in list(errors.values())[:1]
        )
        if errors and not found:
            self._nvml = None  # finds a driver that was reloaded since the last call
        return found

    def _connect(self) -> None:
        try:
            nvml = self._load()
        except ImportError:
            if (self._proc / "driver/nvidia").exists() or (self._dev / "nvidiactl").exists():
                self._why = (
                    "nvidia: GPUs cannot be seen, because a library is not installed: type `pip install nvidia-ml-py`"
                )
            return
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self._why = f"nvidia: no driver answers ({error}): if there is a GPU, install its driver; see `nvidia-smi`"
            return
        self._nvml, self._why = nvml, ""

    def _device(self, index: int, uuid: str, handle: Any) -> Device:
        name = self.ask("nvmlDeviceGetName", handle)
        memory = self.ask("nvmlDeviceGetMemoryInfo", handle)
        capability = self.ask("nvmlDeviceGetCudaComputeCapability", handle)
        driver = self.ask("nvmlSystemGetDriverVersion")
        return Device(
            index=index,
            uuid=uuid,
            name=_text(name) if name is not None else "NVIDIA GPU",
            vendor="nvidia",
            total=_bytes(memory.total) if memory is not None else None,
            free=_bytes(memory.free) if memory is not None else None,
            arch=".".join(str(part) for part in capability) if capability is not None else None,
            driver=_text(driver) if driver is not None else None,
            address=self._address(handle),
            bandwidth=self._bandwidth(handle),
        )

    def _bandwidth(self, handle: Any) -> int | None:
        """Width of the bus in bits, and the clock in MHz, at which it moves two bits of each line."""
        width = self.ask("nvmlDeviceGetMemoryBusWidth", handle)
        clock = self.ask("nvmlDeviceGetMaxClockInfo", handle, 2)  # NVML_CLOCK_MEM
        if not isinstance(width, int) or not isinstance(clock, int) or width <= 0 or clock <= 0:
            return None
        return width * clock * 10**6 * 2 // 8

    def _address(self, handle: Any) -> str:
        """NVML writes eight digits of the domain, everybody else four."""
        place = self.ask("nvmlDeviceGetPciInfo", handle)
        return _text(place.busId).lower().rstrip("\0")[-len("0000:00:00.0") :] if place is not None else ""

    def ask(self, name: str, *arguments: Any) -> Any:
        """None if this device, driver or package does not have it (unified memory, MIG, an old driver)."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def _counts_our_numbers(self) -> bool:
        try:
            return os.readlink(self._proc / "self/ns/pid") == INITIAL_NAMESPACE
        except OSError:
            return True  # a kernel without namespaces has one


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _bytes(value: Any) -> int | None:
    return int(value) if value is not None else None


SMALLEST = 2 * 2**30
"""A card with less memory than this is integrated graphics, without room for a model."""


class Amd:
    """A `DeviceProbe`. `system` is /sys, `proc` is /proc."""

    source = "fdinfo"
    vendor = "amd"

    def __init__(self, system: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        self._system = system
        self._proc = proc

    def devices(self) -> list[Device]:
        nodes = self._nodes()
        archs = {address: arch for address, (_, arch) in nodes.items()}
        numbers = {address: number for number, address in enumerate(nodes)}
        return [
            self._device(index, card, archs.get(card.address), numbers.get(card.address))
            for index, card in enumerate(self.cards())
        ]

    def misses(self) -> bool:
        return False  # the kernel shows them all

    def by_process(self) -> Accounting | None:
        cards = {card.address: _uuid(card) for card in self.cards()}
        if not cards:
            return None
        shared = {card.address for card in self.cards() if _is_inside_the_processor(card)}
        shown = fdinfo_memory(self._proc, cards, shared)
        if shown is None:
            return None
        found = {pid: {cards[address]: size for address, size in held.items()} for pid, held in shown.items()}
        for gpu, uuid in {gpu: cards[at] for at, (gpu, _) in self._nodes().items() if at in cards}.items():
            for path in self._kfd().glob(f"proc/[0-9]*/vram_{gpu}"):
                size = read_number(path)
                if size:
                    mine = found.setdefault(int(path.parent.name), {})
                    mine[uuid] = max(mine.get(uuid) or 0, size)  # some kernels show compute memory in both places
        return found

    def notes(self) -> list[str]:
        return []

    def cards(self) -> list[DrmCard]:
        """In the order of `devices`."""
        return [card for card in self._all() if (_total(card) or 0) >= SMALLEST]

    def in_main_memory(self) -> list[DrmCard]:
        """Those that have next to no memory of their own: graphics inside the processor."""
        return [card for card in self._all() if (_total(card) or 0) < SMALLEST]

    def _all(self) -> list[DrmCard]:
        return drm_cards(self._system / "class/drm", "amd")

    def _device(self, index: int, card: DrmCard, arch: str | None, number: int | None) -> Device:
        total, used = _total(card), read_number(card.path / "device/mem_info_vram_used")
        if _is_inside_the_processor(card):
            more, taken = (read_number(card.path / f"device/mem_info_gtt_{word}") for word in ("total", "used"))
            total = total + more if total is not None and more is not None else total
            used = used + taken if used is not None and taken is not None else used
        name = read_word(card.path / "device/product_name") or (f"AMD GPU ({arch})" if arch else "AMD GPU")
        free = max(0, total - used) if total is not None and used is not None else None
        return Device(index, _uuid(card), name, "amd", total, free, arch, card.driver, card.address, number)

    def _kfd(self) -> Path:
        return self._system / "class/kfd/kfd"

    def _nodes(self) -> dict[str, tuple[int, str]]:
        """PCI address -> the compute driver's number of the GPU, and its architecture; in the driver's order."""
        found = {}
        nodes = [node for node in self._kfd().glob("topology/nodes/*") if node.name.isdigit()]
        for node in sorted(nodes, key=lambda node: int(node.name)):
            lines = (read_word(node / "properties") or "").splitlines()
            facts = {key: int(value) for key, _, value in (line.partition(" ") for line in lines) if value.isdigit()}
            gpu, version = read_number(node / "gpu_id"), facts.get("gfx_target_version", 0)
            if gpu and version:  # CPUs are nodes, too, with 0 for both
                place = facts.get("location_id", 0)
                address = f"{facts.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7:x}"
                found[address] = (gpu, f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}")
        return found


def _total(card: DrmCard) -> int | None:
    return read_number(card.path / "device/mem_info_vram_total")


def _is_inside_the_processor(card: DrmCard) -> bool:
    """Whether it computes in main memory, too, so that engines count both its regions (ggml-vulkan: all heaps of an
    integrated GPU). Only such ones have the voltage `vddnb` (docs.kernel.org, "GPU Power/Thermal Controls").
    """
    return any(read_word(label) == "vddnb" for label in card.path.glob("device/hwmon/hwmon*/in*_label"))


def _uuid(card: DrmCard) -> str:
    return read_word(card.path / "device/unique_id") or card.address


_INSIDE_THE_PROCESSOR = "0000:00:02.0"


class Intel:
    """A `DeviceProbe`. `system` is /sys, `proc` is /proc. Drivers that do not show a card's size leave it unknown."""

    source = "fdinfo"
    vendor = "intel"

    def __init__(self, system: Path = Path("/sys"), proc: Path = Path("/proc")) -> None:
        self._system = system
        self._proc = proc

    def devices(self) -> list[Device]:
        numbers = {card.address: number for number, card in enumerate(self._all())}
        return [
            Device(
                index=index,
                uuid=card.address,
                name="Intel GPU",
                vendor="intel",
                total=_local_memory(card),
                free=_free_local_memory(card),
                driver=card.driver,
                address=card.address,
                number=numbers[card.address],
            )
            for index, card in enumerate(self.cards())
        ]

    def misses(self) -> bool:
        return False  # the kernel shows them all

    def by_process(self) -> Accounting | None:
        addresses = {card.address for card in self.cards()}
        return fdinfo_memory(self._proc, addresses) if addresses else None

    def notes(self) -> list[str]:
        silent = [card.address for card in self.cards() if _local_memory(card) is None]
        if not silent:
            return []
        return [
            f"intel: the driver does not show how much memory {', '.join(silent)} has: give its serves a `memory`, or "
            "`--device-memory` to `stoker fit`"
        ]

    def cards(self) -> list[DrmCard]:
        """In the order of `devices`."""
        return [card for card in self._all() if card.address != _INSIDE_THE_PROCESSOR]

    def in_main_memory(self) -> list[DrmCard]:
        """Graphics inside the processor."""
        return [card for card in self._all() if card.address == _INSIDE_THE_PROCESSOR]

    def _all(self) -> list[DrmCard]:
        return drm_cards(self._system / "class/drm", "intel")


def _local_memory(card: DrmCard) -> int | None:
    """i915 shows one figure, xe one per tile."""
    whole = read_number(card.path / "lmem_total_bytes")
    tiles = [read_number(path) for path in card.path.glob("device/tile*/physical_vram_size_bytes")]
    return whole if whole is not None else sum(tile or 0 for tile in tiles) or None


def _free_local_memory(card: DrmCard) -> int | None:
    return read_number(card.path / "lmem_avail_bytes")


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

    def misses(self) -> bool:
        return any(probe.misses() for probe in self._probes)

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


class Apple:
    """A `DeviceProbe`: the GPU of a Mac with Apple silicon, which computes in main memory. macOS does not tell how much
    of it each process has given to the GPU.
    """

    source = "none"
    vendor = "apple"

    def __init__(
        self,
        is_here: Callable[[], bool] = is_macos,
        ask: Callable[[str], str | None] = memory.sysctl,
        main: Callable[[], memory.MainMemory] = memory.main_memory,
    ) -> None:
        self._is_here = is_here
        self._ask = ask
        self._main = main

    def devices(self) -> list[Device]:
        """Empty on a Mac with an Intel processor, too: its GPUs are not looked at."""
        if not self._is_here() or self._ask("hw.optional.arm64") != "1":  # also tells it to a Python for Intel
            return []
        found = self._main()
        limit = memory.wired_limit(found.total, self._ask) if found.total is not None else None
        free = min(limit, found.available) if limit is not None and found.available is not None else None
        name = self._ask("machdep.cpu.brand_string") or "Apple GPU"
        return [Device(0, "apple-0", name, self.vendor, limit, free, driver="Metal", is_unified=True)]

    def misses(self) -> bool:
        return False

    def by_process(self) -> Accounting | None:
        return None

    def notes(self) -> list[str]:
        return []


def probes() -> tuple[Nvidia, Amd, Intel]:
    """The probe of each vendor of cards, for this machine."""
    return Nvidia(), Amd(), Intel()


def in_main_memory() -> list[str]:
    """GPUs of this machine that have no memory of their own, each as its vendor and PCI address. They are no devices:
    a model that an engine runs on one takes main memory.
    """
    _, amd, intel = probes()
    return [f"{probe.vendor} {card.address}" for probe in (amd, intel) for card in probe.in_main_memory()]


def machine() -> Machine:
    """All of this machine's as one."""
    return Machine((*probes(), Apple()))
