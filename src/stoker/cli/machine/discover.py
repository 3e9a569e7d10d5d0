"""GPUs, GGUF files and engines of this machine. The search is bounded in depth and time."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.cli.machine import nvidia_smi
from stoker.engines.registry import DEFAULT, ENGINES
from stoker.store.files.model_file import is_later_part, problem_of

DEPTH = 6
"""How deep directories are searched. A model hub's cache needs five levels."""
SEARCH_SECONDS = 5.0
"""Time limit for the whole search: a header takes up to 0.2 s."""
_PCI_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
_LARGE_BAR = 2 * 2**30


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator. `memory` in bytes; None is unknown."""

    index: int
    uuid: str
    name: str
    memory: int | None
    vendor: str


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A GGUF file that can be served; of a split one, the first part (`size` is that part's)."""

    path: Path
    size: int
    name: str = ""
    """A name for its serve; empty: made from the file's name."""
    origin: str = ""
    """The program that downloaded it; empty: unknown."""


@dataclass(frozen=True, slots=True)
class InstalledEngine:
    """An engine or container tool, and its path."""

    name: str
    where: str


def gpus(system: Path = Path("/sys/class/drm")) -> list[Gpu]:
    """Every GPU, from nvidia-smi, else NVML, else the kernel."""
    return _from_nvidia_smi() or _from_nvml() or _from_kernel(system)


def _from_nvidia_smi() -> list[Gpu]:
    return [
        Gpu(int(row["index"]), row["uuid"], row["name"], nvidia_smi.mebibytes(row["memory.total"]), "nvidia")
        for row in nvidia_smi.query("gpu", ("index", "uuid", "name", "memory.total")) or ()
        if row["index"].isdigit()
    ]


def _from_nvml() -> list[Gpu]:
    if not is_importable("pynvml"):
        return []
    import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []  # the package is there and the driver is not
    try:
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            with contextlib.suppress(pynvml.NVMLError):  # one that fell off the bus
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
                names = str(pynvml.nvmlDeviceGetUUID(handle)), str(pynvml.nvmlDeviceGetName(handle))
                found.append(Gpu(index, *names, memory, "nvidia"))
        return found
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _from_kernel(system: Path) -> list[Gpu]:
    found: list[Gpu] = []
    cards = (card for card in system.glob("card*") if card.name[4:].isdigit())
    for card in sorted(cards, key=lambda c: int(c.name[4:])):
        vendor = _PCI_VENDORS.get(_word(card / "device" / "vendor"), "")
        memory = _word(card / "device" / "mem_info_vram_total")
        total = int(memory) if memory.isdigit() else None
        if vendor in ("", "intel") or (vendor == "amd" and (total or 0) < _LARGE_BAR):
            continue  # a display adapter, or graphics inside a processor: no place for a model of its own
        found.append(Gpu(len(found), _word(card / "device" / "unique_id") or card.name, f"{vendor} GPU", total, vendor))
    return found


def _word(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""  # the kernel shows only what this driver knows


def model_directories(vault: Path) -> list[Path]:
    """Directories where GGUF files usually are, the likeliest first."""
    home = Path.home()
    cache = Path(os.environ.get("HF_HOME") or home / ".cache" / "huggingface")
    return [vault, Path.cwd(), home / "models", cache, home / ".cache" / "llama.cpp"]


def models(
    places: Iterable[Path],
    depth: int = DEPTH,
    patience: float = SEARCH_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    on_unusable: Callable[[str], None] = lambda problem: None,
) -> list[ModelFile]:
    """GGUF files that can be served, each once: no later parts of split files.

    `on_unusable` gets a sentence for each file that is named so and that no engine can load, by its header, and one if
    there was no time to look at all of them.
    """
    deadline = clock() + patience
    found: dict[Path, ModelFile] = {}
    seen: set[Path] = set()

    def is_late() -> bool:
        return clock() > deadline

    for place in places:
        for path in _walk(place, depth, is_late):
            real = path.resolve()
            if real in seen or not _is_candidate(path):
                continue
            seen.add(real)
            if problem := problem_of(str(path.absolute())):
                on_unusable(problem)
            else:
                found[real] = ModelFile(path.absolute(), real.stat().st_size)
    if is_late():
        on_unusable(f"the rest of this machine: the search took longer than {patience:g} s")
    return list(found.values())


def _walk(folder: Path, depth: int, is_late: Callable[[], bool]) -> Iterator[Path]:
    if is_late():
        return
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return  # not there, or not ours to read
    for entry in entries:
        if is_late():
            return
        if entry.is_dir(follow_symlinks=False):
            if depth > 0 and (not entry.name.startswith(".")):
                yield from _walk(Path(entry.path), depth - 1, is_late)
        elif entry.name.lower().endswith(".gguf"):
            yield Path(entry.path)


def _is_candidate(path: Path) -> bool:
    """A path with control characters or undecodable bytes cannot stand in a configuration."""
    return str(path.absolute()).isprintable() and not is_later_part(str(path))


def engines() -> list[InstalledEngine]:
    """Engines and container tools of this machine."""
    found = []
    programs = [(engine.program, engine.name) for engine in ENGINES.values() if engine.program]
    for command, name in (*programs, ("docker", "docker")):
        where = shutil.which(command)
        if where is not None:
            found.append(InstalledEngine(name, where))
    for package, name in (pair for engine in ENGINES.values() for pair in engine.packages.items()):
        if all(engine.name != name for engine in found) and is_importable(package):
            found.append(InstalledEngine(name, f"the Python package {package}"))
    return found


def has_default(found: Iterable[InstalledEngine]) -> bool:
    """Whether serves that name no engine can run."""
    return any(engine.name in (DEFAULT.name, *DEFAULT.packages.values()) for engine in found)


def is_importable(package: str) -> bool:
    """Whether Python finds the package; it is not imported."""
    return importlib.util.find_spec(package) is not None
