"""Installs clients, each into a folder of its own: `DIR/PROGRAM`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.agents import clients
from bench.agents.clients import Client

LIMIT = 600.0
"""Seconds for one installation."""
_LINES = 3
"""How many lines of what an installer printed are worth repeating."""


def install(client: Client, where: Path) -> str | None:
    """Install its pinned version, unless it is there. Returns why it cannot be used, or None.

    A client that is on PATH, or was installed into DIR before, is left as it is.
    """
    if clients.find(client, clients.search_path(where)) is not None:
        return None
    folder = where / client.program
    tool, *packages = client.install.replace("pip install", "pip").replace("npm i", "npm").split()
    problem = _run(_npm(folder, packages)) if tool == "npm" else _run(_venv(folder), _pip(folder, packages))
    if problem is not None:
        shutil.rmtree(folder, ignore_errors=True)  # half an installation would look like a whole one
        return f"`{client.install}` failed: {problem}"
    if clients.find(client, clients.search_path(where)) is None:
        return f"`{client.install}` installed no program `{client.program}`"
    return None


def install_all(chosen: Sequence[Client], where: Path, progress: Callable[[str], None]) -> None:
    """Install each program once. What fails is told through `progress`."""
    programs = {client.program: client for client in chosen}
    for number, client in enumerate(programs.values(), 1):
        progress(f"installing {number} of {len(programs)}: {client.install}")
        problem = install(client, where)
        if problem is not None:
            progress(problem)


def _npm(folder: Path, packages: Sequence[str]) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    return ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder), *packages]


def _venv(folder: Path) -> list[str]:
    return [sys.executable, "-m", "venv", str(folder)]


def _pip(folder: Path, packages: Sequence[str]) -> list[str]:
    return [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]


def _run(*commands: Sequence[str]) -> str | None:
    """What went wrong, or None."""
    for command in commands:
        if shutil.which(command[0]) is None:
            return f"there is no {command[0]}"
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
                env={**os.environ, "CI": "true"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"{command[0]} took longer than {LIMIT:.0f} s"
        if done.returncode:
            return " / ".join((done.stderr or done.stdout).strip().splitlines()[-_LINES:]) or f"exit {done.returncode}"
    return None
