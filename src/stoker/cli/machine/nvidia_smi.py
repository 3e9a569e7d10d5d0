"""What `nvidia-smi` says. A machine without the command, and a driver that hangs, say nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

WITHIN = 5.0
"""Seconds."""
ON_WSL = "/usr/lib/wsl/lib/nvidia-smi"
"""Where Windows puts it, whose folder is not on every PATH."""
MIB = 2**20


def query(what: str, fields: Sequence[str]) -> list[dict[str, str]] | None:
    """`nvidia-smi --query-WHAT=FIELDS`, a dictionary for each row. None: there is no command, or it failed."""
    command = shutil.which("nvidia-smi") or shutil.which(ON_WSL)
    if command is None:
        return None
    words = [command, f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return rows(answer.stdout, fields) if answer.returncode == 0 else None


def rows(text: str, fields: Sequence[str]) -> list[dict[str, str]]:
    """Rows of comma-separated values; rows with another number of values are skipped. Pure."""
    found = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == len(fields):
            found.append(dict(zip(fields, parts, strict=True)))
    return found


def mebibytes(text: str) -> int | None:
    """Bytes of a number of MiB; None: it is `[N/A]`, or another word."""
    return int(text) * MIB if text.isdigit() else None
