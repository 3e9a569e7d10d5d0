"""The environments that builders run in: exactly requirements-release.lock, in build/tools; and for mypyc, which needs
the types of all that Stoker depends on, exactly requirements-dev.lock, in build/compiling-3.X.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.releasing.changelog import ReleaseRefused

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-release.lock"
COMPILING_LOCK = ROOT / "requirements-dev.lock"
TOOLS = ROOT / "build" / "tools"


def tool(name: str) -> str:
    """The path of a program of the lock; made at first use. Raises ReleaseRefused."""
    stamp, wanted = TOOLS / "stamp", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        run([sys.executable, "-m", "venv", "--clear", str(TOOLS)])
        install = [str(TOOLS / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*install, "--require-hashes", "-r", str(LOCK)])
        stamp.write_text(wanted)
    return str(TOOLS / "bin" / name)


def compiling_python(python: str) -> str:
    """The interpreter of the environment that compiles for this version of Python. Raises ReleaseRefused."""
    interpreter = find_python(python)
    if interpreter is None:
        raise ReleaseRefused(f"no python{python} on PATH, at pyenv or at uv, and uv could not install one")
    place = ROOT / "build" / f"compiling-{python}"
    stamp, wanted = place / "stamp", hashlib.sha256(COMPILING_LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        run([interpreter, "-m", "venv", "--clear", "--without-pip", str(place)])
        install = [tool("uv"), "pip", "install", "--quiet", "--python", str(place / "bin" / "python")]
        run([*install, "--require-hashes", "-r", str(COMPILING_LOCK)])
        stamp.write_text(wanted)
    return str(place / "bin" / "python")


def find_python(python: str) -> str | None:
    """An interpreter of this version."""
    own = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{python}.*/bin/python"))
    for candidate in (*own, shutil.which(f"python{python}")):
        if candidate and _version(str(candidate)) == python:
            return str(candidate)
    for words in (("find",), ("install",), ("find",)):
        found = subprocess.run(
            [tool("uv"), "python", *words, python], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if words == ("find",) and found.returncode == 0 and _version(found.stdout.strip()) == python:
            return found.stdout.strip()
    return None


def _version(interpreter: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    found = subprocess.run([interpreter, "-c", code], capture_output=True, text=True)
    return found.stdout.strip()


def run(command: list[str], cwd: Path = ROOT, environment: dict[str, str] | None = None, shown: bool = True) -> str:
    """What a command prints. Raises ReleaseRefused with its output if it fails."""
    if shown:
        print("  $", " ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        raise ReleaseRefused(f"{command[0]} failed with exit code {done.returncode}:\n{text[-4000:]}")
    return text
