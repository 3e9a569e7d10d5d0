"""What `doctor` says in Windows Subsystem for Linux: what differs there from a Linux of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.cli.console import figures
from stoker.domain.doctor_finding import DoctorFinding, DoctorHealth
from stoker.system import memory
from stoker.system.identity import wsl_version

if TYPE_CHECKING:
    from stoker.domain.serve import Serve

PART = "wsl"
LIBRARIES = "usr/lib/wsl/lib"
"""Where Windows puts its driver's libraries and `nvidia-smi`."""
_OF_WINDOWS = ("9p", "drvfs")
"""Types of file systems that lie in Windows."""


def findings(
    folders: Sequence[Path],
    serves: Sequence[Serve],
    root: Path = Path("/"),
    which: Callable[[str], str | None] = shutil.which,
) -> list[DoctorFinding]:
    """Empty elsewhere. `folders`: where Stoker keeps weights and state; `root`: what is taken for `/`."""
    version = wsl_version(root / "proc/sys/kernel/osrelease")
    if version is None:
        return []
    if version == 1:
        return [
            DoctorFinding(
                PART,
                DoctorHealth.WARN,
                "WSL 1: no GPU is reachable, and Linux's calls are imitated",
                "in PowerShell: wsl --set-version NAME 2, with the NAME that it lists",
                "wsl.exe --list --verbose",
            )
        ]
    return [_memory(root), *_gpu(root, which), *_files(folders, serves, root), *_services(root)]


def _memory(root: Path) -> DoctorFinding:
    total = memory.kernel_table(root / "proc/meminfo").get("MemTotal")
    size = figures.size(total) if total is not None else "an unknown part"
    return DoctorFinding(
        PART,
        DoctorHealth.OK,
        f"WSL 2 has {size} of Windows' memory, by default half: `memory=` of [wsl2] in %UserProfile%\\.wslconfig, then "
        "`wsl --shutdown`; GPUs have no MIG here, and memory of a GPU by process is not told",
    )


def _gpu(root: Path, which: Callable[[str], str | None]) -> list[DoctorFinding]:
    program = root / LIBRARIES / "nvidia-smi"
    if which("nvidia-smi") is not None or not program.exists():
        return []
    return [
        DoctorFinding(
            f"{PART} GPU",
            DoctorHealth.WARN,
            f"nvidia-smi is not on PATH; Windows' driver has put it at {program}",
            f'add it: export PATH="$PATH:/{LIBRARIES}". Install no NVIDIA driver in Linux',
            f"/{LIBRARIES}/nvidia-smi",
        )
    ]


def _files(folders: Sequence[Path], serves: Sequence[Serve], root: Path) -> list[DoctorFinding]:
    mounts = _mounts(root)
    named = [(f"`{serve.name}`", serve.model) for serve in serves if serve.model.startswith("/")]
    named += [("", str(folder)) for folder in folders]
    found = [f"{who} {path}".strip() for who, path in named if _type_of(path, mounts) in _OF_WINDOWS]
    if not found:
        return []
    return [
        DoctorFinding(
            f"{PART} files",
            DoctorHealth.WARN,
            f"in Windows' file system, which is read by a network protocol, many times slower: {', '.join(found)}",
            "copy them into Linux, and name them there: cp /mnt/c/... ~/models/",
            "stoker doctor",
        )
    ]


def _mounts(root: Path) -> list[tuple[str, str]]:
    """Where each file system is mounted, and its type."""
    try:
        lines = (root / "proc/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    parts = (line.split() for line in lines)
    return [(one[1].replace("\\040", " "), one[2]) for one in parts if len(one) >= 3]


def _type_of(path: str, mounts: Sequence[tuple[str, str]]) -> str:
    """The type of the file system that a path is on: that of the longest mount point before it."""
    above = [(place, kind) for place, kind in mounts if f"{path}/".startswith(f"{place.rstrip('/')}/")]
    return max(above, key=lambda one: len(one[0]), default=("", ""))[1]


def _services(root: Path) -> list[DoctorFinding]:
    if (root / "run/systemd/system").is_dir():
        return []
    return [
        DoctorFinding(
            f"{PART} services",
            DoctorHealth.OK,
            "systemd is off, so that Stoker cannot be a service: write [boot] and systemd=true into /etc/wsl.conf, "
            "then `wsl --shutdown` in Windows",
        )
    ]
