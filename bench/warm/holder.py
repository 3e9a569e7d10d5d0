"""Stoker's holder, run by the bench: it brings a file into the page cache and keeps it there."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from stoker.fleet.warm.holder import HoldProgress, HoldRequest


class Holder:
    """Use as a context manager: leaving it ends the process. `took`: seconds until the file was in memory."""

    def __init__(self, path: Path, patience: float = 300.0) -> None:
        """Returns once it is. Raises RuntimeError if it cannot be, or takes longer than `patience` seconds."""
        command = (sys.executable, "-m", "stoker.fleet.warm.holder")
        began = time.perf_counter()
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.locked = self._await(path, began + patience)
            self.took = time.perf_counter() - began
        except BaseException:
            self._end()
            raise

    def _await(self, path: Path, until: float) -> int:
        """Bytes locked, once all is in."""
        source, sink = self._child.stdout, self._child.stdin
        assert source is not None
        assert sink is not None
        sink.write(msgspec.json.encode(HoldRequest((str(path),))) + b"\n")
        sink.flush()
        while select.select([source], [], [], max(0.0, until - time.perf_counter()))[0]:
            progress = msgspec.json.decode(source.readline() or b"{}", type=HoldProgress)
            if progress.problem:
                raise RuntimeError(f"the holder cannot hold {path.name}: {progress.problem}")
            if progress.done == progress.size:
                return progress.locked
        raise RuntimeError(f"the holder did not bring {path.name} in: is memory short?")

    def __enter__(self) -> Holder:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                pipe.close()
