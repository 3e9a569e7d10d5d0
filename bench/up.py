"""A `stoker up` of a bench: started, waited for, ended by pid."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from bench.processes import Child
from bench.swap import calls

PATIENCE = 30.0
"""Seconds for the front door."""


def program() -> str | None:
    """The `stoker` command: beside this Python, or on PATH."""
    beside = Path(sys.executable).with_name("stoker")
    return str(beside) if beside.exists() else shutil.which("stoker")


class Up:
    """A running control plane. Use as a context manager: leaving it ends it and its engines, by pid."""

    def __init__(self, folder: Path, configuration: str, port: int, environment: Mapping[str, str]) -> None:
        """Starts it in `folder`, and waits for its front door on `port`. Raises RuntimeError with its last words."""
        stoker = program()
        if stoker is None:
            raise RuntimeError("no `stoker` command beside this Python: pip install -e . first")
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self.stoker, self.config = port, stoker, folder / "stoker.toml"
        self.config.write_text(configuration)
        self.environment = {**os.environ, **environment}
        argv = (stoker, "up", "--config", str(self.config))
        began = time.perf_counter()
        self._child = Child.start("stoker", argv, folder / "output.log", self.environment)
        try:
            self.up_after = self._await_front_door(began)
        except BaseException:
            self._child.end()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        left = self._child.end(grace=40)
        if left:
            sys.stderr.write(f"stoker had left processes behind, which were ended: {left}\n")

    def _await_front_door(self, began: float) -> float:
        while time.perf_counter() - began < PATIENCE and self._child.is_alive():
            with contextlib.suppress(OSError, http.client.HTTPException):  # not yet
                status, _ = calls.get(self.port, "/healthz", timeout=2)
                if status == 200:
                    return time.perf_counter() - began
            time.sleep(0.001)
        raise RuntimeError(f"`stoker up` did not open its front door; its last words:\n{self._child.last_words()}")
