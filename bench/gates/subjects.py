"""What is asked: the embedded llama.cpp, and the scripted assistant in its legal variations."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import stoker
from bench.processes import Child, free_port
from stoker.domain.lease import Target
from stoker.domain.run import Run, Subject
from stoker_lab.preflight.pages import PageClient
from stoker_lab.preflight.run import PreflightOptions, run_preflight
from stoker_lab.testing.faults.fault import ServingFault
from stoker_lab.testing.faults.grafts import GRAFTS
from stoker_lab.testing.faults.proxy import FaultProxy
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

_START = 30.0
ASSISTANT = Script(id="assistant", assistant=True, thinks=True, context=32768, engine="vllm", gap=0.001)
VARIATIONS: Sequence[dict[str, object]] = (
    {},
    {"thinks": False},
    {"reasoning_field": "reasoning"},
    {"engine": "llama.cpp", "quirks": "whole_call"},
    {"quirks": "empty_deltas,null_calls"},
    {"quirks": "first_content_with_role,repeat_id", "thinks": False},
    {"quirks": "interleave,together"},
    {"events_per_write": 4, "split": (1, 3, 7, 200)},
    {"engine": "sglang", "framing": "close", "role_first": True, "first_event_after": 0.02},
    {"gap": 0.0, "cached_tokens": 3, "chunk_bytes": 9, "quirks": "late_name"},
)
"""Habits of real servers that are no faults."""


_PLAYED = ("parallel", "thinking", "descriptions")


class RunningSubject(NamedTuple):
    """A subject that listens."""

    name: str
    target: Target
    plays: tuple[str, ...]
    """Grafts that it does not need."""


@asynccontextmanager
async def engine(model: str, *, embeds: bool = False) -> AsyncIterator[RunningSubject]:
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        port = free_port()
        child = Child.start("engine", command(model, port, embeds=embeds), Path(folder) / "log")
        try:
            target = Target("127.0.0.1", port, "", model)
            await _ready(target)
            yield RunningSubject("embedder" if embeds else "engine", target, ())
        finally:
            child.end()


@asynccontextmanager
async def assistant(script: Script = ASSISTANT) -> AsyncIterator[RunningSubject]:
    async with ScriptedServer(script) as server:
        yield RunningSubject("assistant", Target("127.0.0.1", server.port, "", script.id), _PLAYED)


def variation(turn: int) -> Script:
    return ASSISTANT.amended(VARIATIONS[turn % len(VARIATIONS)])


def command(model: str, port: int, *, embeds: bool = False) -> list[str]:
    weights = Path(stoker.__file__).parent / "models" / f"{model}.gguf"
    start = [sys.executable, "-m", "stoker.engines.embedded", "-m", str(weights), "--alias", model]
    shape = ["-np", "4", "-c", "8192", "-t", "1", "--temp", "0", "--cache-ram", "0"]
    vectors = ["--embedding", "--pooling", "last"] if embeds else []
    return [*start, "--port", str(port), *shape, *vectors, "--metrics", "--slots"]


async def behind(
    subject: RunningSubject, fault: ServingFault, options: PreflightOptions, grafts: Sequence[str] | None = None
) -> Run:
    """Preflight of the subject behind this fault."""
    names = [name for name in (fault.needed_abilities if grafts is None else grafts) if name not in subject.plays]
    async with FaultProxy(subject.target, fault, [GRAFTS[name] for name in names]) as proxy:
        return await asked(subject.target, proxy.port, options)


async def asked(target: Target, port: int, options: PreflightOptions) -> Run:
    own = Target(target.host, port, "", target.served_name)
    subject = Subject(target.served_name, target.served_name, f"http://{target.host}:{port}/v1", route="direct")
    return await run_preflight(subject, own, options)


async def _ready(target: Target) -> None:
    pages, deadline = PageClient(target), time.monotonic() + _START
    try:
        while (await pages.get("/health")).status != 200:
            if time.monotonic() > deadline:
                raise SystemExit("the engine did not come up")
            await asyncio.sleep(0.05)
    finally:
        pages.close()
