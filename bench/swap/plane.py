"""`stoker up` with a configuration of ours."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import engines
from bench.engines import Kind
from bench.processes import Child, free_port
from bench.swap import calls
from bench.swap.alone import Command, command_of


def program() -> str | None:
    """The `stoker` command: beside this Python, or on PATH."""
    beside = Path(sys.executable).with_name("stoker")
    return str(beside) if beside.exists() else shutil.which("stoker")


class Plane:
    """A running control plane. Use as a context manager: leaving it ends it and its engines, by pid."""

    def __init__(self, kind: Kind, folder: Path, swap: str) -> None:
        """Starts it and waits for its front door. Raises RuntimeError with its last words."""
        stoker = program()
        if stoker is None:
            raise RuntimeError("no `stoker` command beside this Python: pip install -e . first")
        folder.mkdir(parents=True)
        self.port = free_port()
        self.key = "sk-" + secrets.token_hex(16)
        config = folder / "stoker.toml"
        config.write_text(engines.configuration(kind, folder, self.port, swap))
        env = {**os.environ, "STOKER_BENCH_KEY": self.key}
        argv = (stoker, "up", "--config", str(config))
        began = time.perf_counter()
        self._child = Child.start("stoker", argv, folder / "output.log", env)
        try:
            self.up_after = self._await_front_door(began)
        except BaseException:
            self._child.end()
            raise

    def __enter__(self) -> Plane:
        return self

    def __exit__(self, *_: object) -> None:
        left = self._child.end(grace=40)
        if left:
            sys.stderr.write(f"stoker had left processes behind, which were ended: {left}\n")

    def _await_front_door(self, began: float) -> float:
        while time.perf_counter() - began < 20 and self._child.is_alive():
            with contextlib.suppress(OSError, http.client.HTTPException):  # not yet
                status, _ = calls.get(self.port, "/healthz", timeout=2)
                if status == 200:
                    return time.perf_counter() - began
            time.sleep(0.001)
        raise RuntimeError(f"`stoker up` did not open its front door; its last words:\n{self._child.last_words()}")

    def first_token(self, serve: str) -> float:
        """Seconds from request to first token, whatever had to be loaded for it."""
        return calls.chat(self.port, serve, self.key).first

    def turn(self, serve: str, messages: Sequence[Mapping[str, str]]) -> calls.Turn:
        return calls.turn(self.port, serve, self.key, messages)

    def status(self) -> dict[str, Any]:
        return self._json(calls.get(self.port, "/status", self.key))

    def serve(self, name: str) -> dict[str, Any]:
        return next(one for one in self.status()["serves"] if one["name"] == name)

    def swaps(self) -> int:
        return sum(int(slot["swaps"]) for slot in self.status()["slots"])

    def command(self, serve: str) -> Command:
        """What runs for a loaded serve."""
        seen = self.serve(serve)
        return command_of(int(seen["pid"]), int(seen["port"]))

    def switch(self, serve: str) -> dict[str, Any]:
        """Blocks until done: {"seconds", "phases", ...}."""
        return self._json(calls.post(self.port, "/admin/switch", {"serve": serve, "force": False}, self.key))

    def unload_all(self) -> None:
        """Nothing is loaded afterwards."""
        for one in self.status()["serves"]:
            if one["state"] != "stopped":
                self._json(calls.post(self.port, "/admin/unload", {"serve": one["name"]}, self.key))

    @staticmethod
    def _json(answer: tuple[int, bytes]) -> dict[str, Any]:
        status, body = answer
        if status != 200:
            raise calls.Failed(f"status {status}: {body[:300].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(body)
        return found
