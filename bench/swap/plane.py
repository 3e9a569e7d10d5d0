"""`stoker up` with a configuration of ours."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import engines
from bench.engines import EngineSetup
from bench.processes import free_port
from bench.swap import calls
from bench.swap.alone import Command, command_of
from bench.up import Up


class Plane(Up):
    """With two serves in one slot. `key`: of an operator."""

    def __init__(self, kind: EngineSetup, folder: Path, swap: str) -> None:
        """As `Up` does."""
        port, self.key = free_port(), "sk-" + secrets.token_hex(16)
        super().__init__(folder, engines.configuration(kind, folder, port, swap), port, {"STOKER_BENCH_KEY": self.key})

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
