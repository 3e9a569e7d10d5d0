"""What a wheel gets besides the program: the pages of docs/, which the web page shows; with STOKER_COMPILE=1, compiled
modules. Without that, a wheel is pure and needs no compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling has no name for the configuration's type
    def dependencies(self) -> list[str]:
        """What an isolated build gets: without the types of what Stoker depends on, mypyc would compile other code."""
        return ["mypy[mypyc]>=2.4,<3", *self.metadata.core.dependencies] if _is_asked_for() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable installation is pure, and has the checkout's pages
            return
        docs = Path(self.root) / "docs"
        for page in docs.rglob("*.md"):
            build_data["force_include"][str(page)] = f"stoker/docs/{page.relative_to(docs).as_posix()}"
        if not _is_asked_for():
            return
        folder = Path(self.directory) / "compiled"
        command = [sys.executable, "-m", "scripts.compiling.compiler", str(folder)]
        subprocess.run(command, cwd=self.root, check=True)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in folder.rglob("*.so"):
            build_data["force_include"][str(path)] = str(path.relative_to(folder))


def _is_asked_for() -> bool:
    return os.environ.get("STOKER_COMPILE") == "1"
