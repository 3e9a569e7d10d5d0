"""GPUs, GGUF files and engines of this machine. The search is bounded in depth and time."""

from __future__ import annotations

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


def gpus() -> list[Gpu]:
    """Every GPU with memory of its own, as `fleet.memory.devices` shows it; NVIDIA's from nvidia-smi where no library
    shows them.
    """
    from stoker.fleet.memory import devices

    found = [Gpu(one.index, one.uuid, one.name, one.total, one.vendor) for one in devices.machine().devices()]
    return found if any(gpu.vendor == "nvidia" for gpu in found) else [*_from_nvidia_smi(), *found]


def _from_nvidia_smi() -> list[Gpu]:
    return [
        Gpu(int(row["index"]), row["uuid"], row["name"], nvidia_smi.mebibytes(row["memory.total"]), "nvidia")
        for row in nvidia_smi.query("gpu", ("index", "uuid", "name", "memory.total")) or ()
        if row["index"].isdigit()
    ]


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
