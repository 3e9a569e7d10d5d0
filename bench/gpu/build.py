"""llama-server with CUDA, built of the source that `prepare` carried."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.gpu.prepare import SOURCE

OPTIONS = (
    "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_CUDA=ON", "-DGGML_CUDA_NCCL=OFF", "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF", "-DGGML_CCACHE=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF",
)  # fmt: skip
"""One file, without downloads and without programs that nobody runs."""
TARGETS = ("llama-server", "llama-fit-params")
LEFT_FREE = 3
"""Cores that the build leaves to what runs beside it."""


class CannotBuild(RuntimeError):
    """What is missing on this machine, or the end of what the build said."""


def architecture(capability: str | None) -> str:
    """CMake's name of one architecture, without PTX: `9.0` is `90a-real`. None: what is in the machine. Pure."""
    if not capability:
        return "native"
    digits = capability.replace(".", "")
    return f"{digits}{'a' if int(digits) >= 90 else ''}-real"


def missing(which: Callable[[str], str | None], parts: Path, is_gpu: bool) -> str:
    """Why nothing can be built here, in one sentence; empty: it can. Pure but for a look for the source."""
    if not is_gpu:
        return "there is no NVIDIA GPU"
    tools = [name for name in ("cmake", "ninja", "nvcc") if which(name) is None]
    if tools:
        return f"this machine has no {' and no '.join(tools)}"
    if not (parts / SOURCE).exists():
        return f"there is no {parts / SOURCE}: `python -m bench.gpu prepare` makes it where there is a network"
    return ""


def build(parts: Path, folder: Path, capability: str | None, say: Callable[[str], None]) -> Path:
    """The `llama-server`. Raises CannotBuild. Blocks for minutes; the caller bounds it."""
    if why := missing(shutil.which, parts, is_gpu=True):
        raise CannotBuild(why)
    source, tree = folder / "llama.cpp", folder / "build"
    if not source.exists():
        with tarfile.open(parts / SOURCE) as archive:
            archive.extractall(source, filter="data")
    options = [*OPTIONS, f"-DCMAKE_CUDA_ARCHITECTURES={architecture(capability)}", *libraries(folder)]
    _run(["cmake", "-S", str(source), "-B", str(tree), *options])
    jobs = max(1, (os.cpu_count() or 1) - LEFT_FREE)
    say(f"building llama.cpp with {jobs} jobs")
    _run(["nice", "-n", "19", "ninja", "-C", str(tree), "-j", str(jobs), *TARGETS])
    return tree / "bin" / "llama-server"


def libraries(folder: Path) -> Sequence[str]:
    """Options that name the CUDA libraries of PyTorch's wheels, where the compiler came without them. Empty: none."""
    try:
        import nvidia
    except ImportError:
        return ()
    found = [path for base in nvidia.__path__ for path in Path(base).rglob("libcublas*.so.*")]
    if not found:
        return ()
    links = folder / "libraries"
    links.mkdir(exist_ok=True)
    for path in found:
        link = links / f"{path.name.partition('.so')[0]}.so"
        if not link.exists():
            link.symlink_to(path)
    return (f"-DCMAKE_LIBRARY_PATH={links}",)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout, flush=True)
    if done.returncode:
        raise CannotBuild(f"{command[0]} ended with {done.returncode}: {' '.join(done.stdout.split()[-60:])}")
