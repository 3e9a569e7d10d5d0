"""The environment that builders run in: exactly requirements-release.lock, in build/tools."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from scripts.releasing.changelog import ReleaseRefused

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-release.lock"
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
