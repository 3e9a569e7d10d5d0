"""The folders and the address of a session, which its client is told."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

MODEL = "coder"
"""What the serve is called."""


class SessionPaths(NamedTuple):
    """Nothing of a session is outside `folder`, which holds the two others."""

    folder: Path
    home: Path
    work: Path
    port: int
    key: str

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def redacted(self, text: str) -> str:
        """The text without what differs from machine to machine."""
        text = text.replace(str(self.work), "~/work").replace(str(self.home), "~").replace(str(self.folder), "~")
        return text.replace(f":{self.port}", ":8000").replace(self.key, "$STOKER_KEY")


def make(folder: Path, port: int, key: str, files: dict[str, str]) -> SessionPaths:
    """An empty home, and a work folder with these files."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    for name, text in files.items():
        (work / name).write_text(text)
    return SessionPaths(folder, home, work, port, key)
