"""A vault, a source beside it, and tools on a PATH of their own that write down what they were asked."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from stoker.domain.serve import Serve
from stoker.fleet.weights.download import DownloadProgress
from stoker.fleet.weights.serve_weights import ServeWeights

_TOOL = """#!{python} -SE
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).resolve().parent
with open(here / "asked", "a") as asked:
    asked.write(json.dumps([os.path.basename(__file__), *sys.argv[1:]]) + "\\n")
{body}
"""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Vault:
    """`told` lists every word on progress, `room` is the free space that is pretended (None: the real one)."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "vault"
        self.source = directory / "source"
        self.bin = directory / "bin"
        self.state = directory / "state"
        for each in (self.path, self.source, self.bin, self.state):
            each.mkdir()
        self.told: list[DownloadProgress] = []
        self.environment = {"PATH": str(self.bin), "SOME_TOKEN": "marker-secret"}
        self.room: int | None = None

    def weights(self) -> ServeWeights:
        free = None if self.room is None else (lambda path: self.room or 0)
        return ServeWeights(str(self.state), self.environment, free)

    def serve(self, model: str = "m.gguf", source: str | None = None, **fields: Any) -> Serve:
        return Serve(name="a", model=str(self.path / model), source=source, **fields)

    def put(self, name: str, content: bytes) -> str:
        """A file at the source; its path."""
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return str(path)

    def tool(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(_TOOL.format(python=sys.executable, body=body))
        path.chmod(0o755)

    def asked(self) -> list[list[str]]:
        """What the tools were asked, in order."""
        path = self.bin / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def left(self) -> list[str]:
        """Everything in the vault, drafts included."""
        return sorted(str(path.relative_to(self.path)) for path in self.path.rglob("*") if not path.is_dir())

    def link(self, name: str, target: str) -> None:
        os.symlink(target, self.bin / name)
