"""A `stoker up` with spark, ember and a cloud as tiers; its bootstrap."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from bench.processes import free_port
from bench.routing import cloud
from bench.swap import calls
from bench.up import Up
from stoker.domain.tier import Cost, ProfileRow

CLOUD = "cloud"
COSTS = {"spark": Cost(0.02, 0.05), "ember": Cost(0.05, 0.1), CLOUD: Cost(3.0, 15.0)}
"""By tier, from the cheapest to the strongest."""
LONG = 500
"""Tokens from which a prompt is long, for models with a context of 2,048: the long texts begin at 600."""
LOCAL = tuple(name for name in COSTS if name != CLOUD)


def configuration(folder: Path, port: int, cloud_port: int, local: Sequence[str]) -> str:
    serves = "".join(_local(name) for name in LOCAL)
    tiers = "".join(f'\n[[tier]]\nname = "{name}"\nserve = "{name}"\n{_cost(name)}' for name in local)
    return f"""\
[front_door]
host = "127.0.0.1"
port = {port}
keys = [{{ name = "bench", value = "env:STOKER_KEY", scope = "admin" }}]

[paths]
state = {json.dumps(str(folder / "state"))}
logs = {json.dumps(str(folder / "logs"))}
{serves}
[router]
long_context = {LONG}
{tiers}
[[tier]]
name = "{CLOUD}"
base_url = "http://127.0.0.1:{cloud_port}/v1"
cloud = true
model = "{cloud.MODEL}"
key = "env:STOKER_BENCH_CLOUD"
{_cost(CLOUD)}"""


def _local(name: str) -> str:
    model = json.dumps(str(files("stoker") / "models" / f"{name}.gguf"))
    return f"""
[[serve]]
name = "{name}"
engine = "llama.cpp"
embedded = true
model = {model}
context = 2048
parallel = 1
threads = 1
"""


def _cost(name: str) -> str:
    return f"cost = {{ input = {COSTS[name].input}, output = {COSTS[name].output} }}\n"


class RoutingStoker(Up):
    """`key`: of an operator. `tiers`: those that are configured, the cloud last."""

    def __init__(self, folder: Path, cloud_port: int, local: Sequence[str] = LOCAL) -> None:
        """As `Up` does. `local`: which of LOCAL are tiers, beside the cloud."""
        port, self.key = free_port(), "sk-" + secrets.token_hex(16)
        self.tiers = (*local, CLOUD)
        keys = {"STOKER_KEY": self.key, "STOKER_BENCH_CLOUD": cloud.KEY}
        super().__init__(folder, configuration(folder, port, cloud_port, local), port, keys)

    def bootstrap(self, suites: Path | None) -> list[ProfileRow]:
        """`stoker eval bootstrap` of the local tiers: the rows that it wrote. Raises RuntimeError if it fails.

        `suites`: a folder of fixtures; None: the shipped ones.
        """
        given = () if suites is None else ("--suites", str(suites))
        argv = (self.stoker, "eval", "bootstrap", *self.tiers[:-1], "--config", str(self.config), "--json", *given)
        done = subprocess.run(argv, capture_output=True, check=False, timeout=600, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"the bootstrap failed: {done.stderr.decode(errors='replace')[-600:]}")
        return msgspec.json.decode(done.stdout, type=list[ProfileRow])

    def decisions(self, limit: int) -> dict[str, dict[str, Any]]:
        """The last ones, by request id."""
        status, body = calls.get(self.port, f"/admin/decisions?limit={limit}", self.key)
        if status != 200:
            raise calls.Failed(f"decisions: status {status}: {body[:200]!r}")
        return {one["id"]: one for one in json.loads(body)["decisions"]}
