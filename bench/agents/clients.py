"""What a client is, and where its command is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from bench.agents.session_paths import SessionPaths
from bench.agents.task import Answers
from stoker.domain.dialect import Dialect

_XDG = {"CONFIG": ".config", "DATA": ".local/share", "CACHE": ".cache", "STATE": ".local/state"}


class Setup(NamedTuple):
    """How it is started. `files` are written first; variables come on top of a bare environment."""

    arguments: tuple[str, ...]
    variables: dict[str, str]
    files: dict[Path, str]


class Client(NamedTuple):
    name: str
    program: str
    dialect: Dialect
    install: str
    setup: Callable[[SessionPaths], Setup]
    answers: Callable[[SessionPaths, Dialect], Answers]
    """`Dialect`: what the serve speaks."""
    serves: tuple[str, ...] = ("chat", "messages", "responses", "local")
    """What it is run against unless somebody chooses; names of `serves.KINDS`."""
    has_tools: bool = True
    limit: float = 120.0
    """Seconds for a session."""


def search_path(where: Path | None) -> str:
    """The folders of programs under DIR (virtual environments, `node_modules`, one folder each), then PATH."""
    found: list[Path] = []
    if where is not None:
        for pattern in ("bin", "node_modules/.bin", "*/bin", "*/node_modules/.bin", "*/*/node_modules/.bin"):
            found += sorted(one for one in where.glob(pattern) if one.is_dir())
        found.insert(0, where)
    return os.pathsep.join([*map(str, found), os.environ.get("PATH", os.defpath)])


def find(client: Client, path: str) -> Path | None:
    """Its command; None: not installed."""
    found = shutil.which(client.program, path=path)
    return None if found is None else Path(found)


def environment(paths: SessionPaths, variables: dict[str, str], path: str) -> dict[str, str]:
    """A home of its own, no proxy, and nothing of whoever runs this."""
    home = str(paths.home)
    bare = {"HOME": home, "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "USER": "user"}
    for name, folder in (
        ("CONFIG", ".config"),
        ("DATA", ".local/share"),
        ("CACHE", ".cache"),
        ("STATE", ".local/state"),
    ):
        bare[f"XDG_{name}_HOME"] = f"{home}/{folder}"
    return {**bare, "STOKER_KEY": paths.key, **variables}


def write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def named(clients: Iterable[Client], names: Iterable[str]) -> list[Client]:
    """All of them, or those named. Raises ValueError for a name that there is not."""
    known = {client.name: client for client in clients}
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"no client '{name}'; there are: {', '.join(known)}")
    return [known[name] for name in wanted] or list(known.values())
