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
"""One file, without downloads and without programs that nobody runs. `-DGGML_CUDA_FA=OFF` would cut the time further,
with the kernels of flash attention.
"""
TARGETS = ("llama-server", "llama-fit-params")
NINJA_LOG = "ninja.log"
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
    options = [*OPTIONS, f"-DCMAKE_CUDA_ARCHITECTURES={architecture(capability)}", *_wheels(folder)]
    run(["cmake", "-S", str(source), "-B", str(tree), *options], folder / "cmake.log")
    jobs = max(1, (os.cpu_count() or 1) - LEFT_FREE)
    say(f"building llama.cpp with {jobs} jobs")
    run(["nice", "-n", "19", "ninja", "-C", str(tree), "-j", str(jobs), *TARGETS], folder / NINJA_LOG)
    return tree / "bin" / "llama-server"


def _wheels(folder: Path) -> Sequence[str]:
    nvcc = shutil.which("nvcc")
    try:
        import nvidia
    except ImportError:
        return ()
    return libraries(Path(nvcc).resolve(), list(map(Path, nvidia.__path__)), folder) if nvcc is not None else ()


def libraries(nvcc: Path, wheels: Sequence[Path], folder: Path) -> Sequence[str]:
    """Options that name the cuBLAS of PyTorch's wheels, if the compiler came without it. Empty: it has its own, or the
    wheels have none. Links in `folder` hold cuBLAS alone: the other headers have to be of the compiler's version.
    """
    toolkit = nvcc.parents[1]
    own = [toolkit / "lib64", toolkit / "targets" / "x86_64-linux" / "lib", toolkit / "lib" / "x86_64-linux-gnu"]
    if any((place / "libcublas.so").exists() for place in own):
        return ()
    found = [path for base in wheels for path in base.rglob("libcublas*.so.*")]
    if not found:
        return ()
    links = folder / "cublas"
    links.mkdir(exist_ok=True)
    for path in found:
        for name in (path.name, f"{path.name.partition('.so')[0]}.so"):
            _link(links / name, path)
        for header in (path.parents[1] / "include").glob("cublas*.h"):
            _link(links / header.name, header)
    return (f"-DCMAKE_LIBRARY_PATH={links}", f"-DCMAKE_CUDA_FLAGS=-I{links}", f"-DCMAKE_CXX_FLAGS=-I{links}")


def _link(link: Path, target: Path) -> None:
    if not link.exists():
        link.symlink_to(target)


def run(command: Sequence[str], log: Path) -> None:
    """Its output is in `log` while it runs, so that a build which is cut off leaves it. Raises CannotBuild."""
    with log.open("wb") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        raise CannotBuild(f"{command[0]} ended with {code}: {why_failed(log.read_text(errors='replace'))}")


def why_failed(said: str) -> str:
    """The first lines that name an error; without one, the last lines. Pure."""
    lines = [line for line in said.splitlines() if line.strip()]
    named = [line for line in lines if any(word in line for word in ("FAILED:", "error:", "CMake Error"))]
    return " / ".join(line.strip()[:200] for line in (named[:4] or lines[-4:]))


def progress(folder: Path) -> str:
    """How far a build in `folder` came: what it said last."""
    log = folder / NINJA_LOG
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip()[-200:] for line in reversed(lines) if line.strip()), "it had not begun to compile")
