"""Main memory: its size, the control group's limit, and what processes hold.

Memory of the whole machine that is in use, for /metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stoker.fleet.memory.devices import DeviceProbe, read_number, read_word
from stoker.system.identity import is_linux
from stoker.system.memory import kernel_table, main_memory, resident

_UNLIMITED = 2**60


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Bytes; None is unknown."""

    total: int | None
    """The machine's memory, or the limit of this process's control group if that is lower."""
    available: int | None
    """Memory available without swapping, including the page cache."""
    limit: int | None = None
    """The control group's limit; None: no limit."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Main memory of some processes together, in bytes; pages that they share are counted once where the kernel tells
    (proportional set size), else for each of them."""

    anonymous: int
    """KV cache and buffers, which are freed only with the process."""
    file: int
    """Mapped files, including weights, which the kernel may drop and read again."""

    @property
    def total(self) -> int:
        return self.anonymous + self.file


def host_memory_of(pid: int | None) -> HostMemory:
    """The main memory that a process may use; None: this one."""
    return host_memory(pid=pid)


def host_memory(
    proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup"), credit: int = 0, pid: int | None = None
) -> HostMemory:
    """The main memory that this process may use, or that of number `pid`. `credit`: bytes that will be free by then."""
    found = main_memory(proc)
    total, available = found.total, found.available
    limit, left = _group(proc, groups, "self" if pid is None else str(pid))
    if limit is not None and (total is None or limit < total):
        total = limit
    if left is not None and (available is None or left < available):
        available = left
    return HostMemory(total, available + credit if available is not None else None, limit)


def process_memory(pids: Iterable[int], proc: Path = Path("/proc")) -> ProcessMemory | None:
    """Memory of these processes together. None: none of them can be read (gone, another user's). Where the system does
    not tell files apart, all counts as `anonymous`.
    """
    parts = [part for pid in pids if (part := _one(proc / str(pid))) is not None]
    if not parts:
        return None
    return ProcessMemory(sum(part.anonymous for part in parts), sum(part.file for part in parts))


def _one(process: Path) -> ProcessMemory | None:
    if not is_linux():
        size = resident(int(process.name))
        return ProcessMemory(size, 0) if size is not None else None
    shares = kernel_table(process / "smaps_rollup")
    if "Pss_Anon" in shares:
        return ProcessMemory(shares["Pss_Anon"] + shares.get("Pss_Shmem", 0), shares.get("Pss_File", 0))
    status = kernel_table(process / "status")  # also shows processes of other users
    if "RssAnon" in status:
        return ProcessMemory(status["RssAnon"] + status.get("RssShmem", 0), status.get("RssFile", 0))
    return None


def _group(proc: Path, groups: Path, process: str) -> tuple[int | None, int | None]:
    """The lowest limit that applies to a process, and the rest of it: control groups version 2, else version 1."""
    lines = [line.split(":", 2) for line in (read_word(proc / process / "cgroup") or "").splitlines()]
    paths = {line[1]: line[2] for line in lines}
    if (groups / "cgroup.controllers").exists():
        folder, names = groups / paths.get("", "/").lstrip("/"), ("memory.max", "memory.current", "")
        top = groups
    else:
        folder, top = groups / "memory" / paths.get("memory", "/").lstrip("/"), groups / "memory"
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
    best: tuple[int | None, int | None] = (None, None)
    for place in (folder, *folder.parents):
        if not place.is_relative_to(top):
            break
        limit = read_number(place / names[0])
        if limit is not None and limit < _UNLIMITED and (best[0] is None or limit < best[0]):
            best = (limit, _left(place, limit, names[1], names[2]))
    return best


def _left(place: Path, limit: int, current: str, cache: str) -> int | None:
    """The group's page cache, which the kernel frees before the limit is enforced."""
    used = read_number(place / current)
    if used is None:
        return None
    lines = (line.split() for line in (read_word(place / "memory.stat") or "").splitlines())
    files = {f"{cache}active_file", f"{cache}inactive_file"}  # pages that are not locked, even if recently used
    reclaimable = sum(int(parts[1]) for parts in lines if len(parts) == 2 and parts[0] in files)
    return max(0, limit - max(0, used - reclaimable))


def memory_in_use(probe: DeviceProbe) -> dict[str, int | None]:
    """Bytes by the name of their series; None: unknown, or there is no accelerator. Blocks as the probe does."""
    host = host_memory()
    ram = None if host.total is None or host.available is None else host.total - host.available
    used = [d.total - d.free for d in probe.devices() if d.total is not None and d.free is not None]
    return {"vram_used_bytes": sum(used) if used else None, "ram_used_bytes": ram}
