"""The generator's environment: exactly requirements-docs.lock, in build/docs-tools."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-docs.lock"
TOOLS = ROOT / "build" / "docs-tools"


def generator() -> Path:
    """The generator's program; its environment is made at first use. Raises subprocess.CalledProcessError."""
    stamp, wanted = TOOLS / "stamp", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print("installing the generator (once) ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(TOOLS)], check=True)
        install = [str(TOOLS / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--require-hashes", "-r", str(LOCK)], check=True)
        stamp.write_text(wanted)
    return TOOLS / "bin" / "zensical"
