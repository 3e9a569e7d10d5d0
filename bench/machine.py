"""Facts about where a bench ran: nothing in here names a person, a host or a folder."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

_PACKAGES = ("stoker", "uvloop", "httptools", "xllamacpp", "gguf", "litellm", "sglang-router")


def facts() -> dict[str, object]:
    """Cores, memory, load and versions, ready for JSON. Anything unknown is None."""
    return {
        "at": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "usable_cores": sorted(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "nginx": _output_of(["nginx", "-v"]),
        "commit": _commit(),
    }


def headline(seen: dict[str, object]) -> str:
    """The same in a few lines of text."""
    packages = seen["packages"]
    versions = ", ".join(f"{k} {v}" for k, v in packages.items()) if isinstance(packages, dict) else ""
    return (
        f"{seen['at']}  {seen['processor']}, {seen['cores']} cores, {seen['memory_gib']} GiB, {seen['system']}\n"
        f"{seen['python']}, {versions}, {seen['nginx'] or 'no nginx'}, commit {seen['commit'] or 'unknown'}\n"
        f"load average before the run: {seen['load_average']}"
    )


def warning(seen: dict[str, object]) -> str | None:
    """One sentence if something else was at work, which makes every figure worse than it is."""
    load = seen["load_average"]
    if isinstance(load, list) and load and load[0] > 0.5:
        return f"warning: load average {load[0]} before the run: something else is using this machine; run it idle"
    return None


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _output_of(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return (done.stdout + done.stderr).strip().removeprefix("nginx version: ") or None


def _commit() -> str | None:
    if shutil.which("git") is None:
        return None
    where = Path(__file__).resolve().parent.parent
    command = ["git", "-C", str(where), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.stdout.write(headline(facts()) + "\n")
