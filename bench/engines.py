"""The serves of a bench that swaps, as configuration text."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class EngineSetup(NamedTuple):
    """Two serves in one slot, `a` and `b` where nothing else is said. `weights` is empty for the scripted engine."""

    name: str
    title: str
    serves: str
    weights: tuple[Path, ...] = ()
    slot: str = ""
    """More lines of the slot's table."""


def llama(weights: tuple[Path, Path], about: str) -> EngineSetup:
    """Embedded llama.cpp."""
    serves = _llama(zip("ab", weights, strict=True), "context = 512\nparallel = 1\nthreads = 1")
    return EngineSetup("llama.cpp", f"embedded llama.cpp, {about}", serves, weights)


def talking(weights: tuple[Path, Path], keep: bool) -> EngineSetup:
    """Embedded llama.cpp with a context of 16,384 tokens; `keep`: conversations are saved at a swap."""
    kept = "true" if keep else "false"
    keys = f"context = 16384\nparallel = 1\nkeep_conversations = {kept}"
    serves = _llama(zip("ab", weights, strict=True), keys)
    return EngineSetup(f"conversation-{'kept' if keep else 'lost'}", "random weights, context 16,384", serves, weights)


def loading(big: Path, small: Path) -> EngineSetup:
    """Embedded llama.cpp on every core, as `big` and `small`."""
    keys = f"context = 256\nparallel = 1\nthreads = {len(os.sched_getaffinity(0))}"
    serves = _llama((("big", big), ("small", small)), keys)
    return EngineSetup("warm", "embedded llama.cpp, random weights", serves, (big, small))


def _llama(serves: Iterable[tuple[str, Path]], keys: str) -> str:
    return "".join(
        f"""
[[serve]]
name = "{name}"
engine = "llama.cpp"
embedded = true
model = {json.dumps(str(path))}
slot = "gpu0"
{keys}
"""
        for name, path in serves
    )


def scripted(load: float, service: float) -> EngineSetup:
    """An engine that takes `load` seconds to come up and `service` seconds to answer."""
    serves = "".join(
        f"""
[[serve]]
name = "{name}"
engine = "openai"
cmd = {json.dumps(_scripted(name, load, service))}
slot = "gpu0"
parallel = 1
"""
        for name in "ab"
    )
    return EngineSetup(f"scripted-{load:g}s", f"scripted engine, {load:g} s to load", serves)


def _scripted(name: str, load: float, service: float) -> list[str]:
    """The only place that knows the flags of `stoker_lab.testing.scripted`."""
    command = [sys.executable, "-m", "stoker_lab.testing.scripted", "--port", "{port}", "--id", name]
    return [*command, "--ready-after", f"{load:g}", "--first-event-after", f"{service:g}", "--tokens", "4"]


HYSTERESIS_OFF = '[swap]\npatience = 0\nmin_residency = "0s"\nlinger = "0s"\nmax_wait = "0s"\n'
HYSTERESIS_ON = ""
"""The defaults."""


def configuration(kind: EngineSetup, folder: Path, port: int, swap: str) -> str:
    """The whole file. The caller's key is in the environment, as STOKER_BENCH_KEY."""
    return f"""\
[front_door]
host = "127.0.0.1"
port = {port}
keys = [{{ name = "bench", value = "env:STOKER_BENCH_KEY", scope = "admin" }}]

[paths]
state = {json.dumps(str(folder / "state"))}
logs = {json.dumps(str(folder / "logs"))}

{swap}
[slots.gpu0]
devices = [0]
{kind.slot}
{kind.serves}"""
