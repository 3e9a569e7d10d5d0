"""The engine's own time: the very command that Stoker ran, taken from the running process, run again without Stoker."""

from __future__ import annotations

import contextlib
import http.client
import os
import select
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.processes import Child, free_port
from bench.swap import calls

POLL = 0.001
"""Seconds between two looks at its health."""


class Command(NamedTuple):
    """What was run. `key`: what the engine wants from whoever calls it, if anything."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    port: int
    key: str | None

    def on(self, port: int) -> Command:
        """The same on another port."""
        old, new = str(self.port), str(port)

        def moved(word: str) -> str:
            if word == old:
                return new
            return word.removesuffix(old) + new if word.endswith((f"={old}", f":{old}")) else word

        argv = tuple(map(moved, self.argv))
        return Command(argv, self.env, port, self.key)


class Own(NamedTuple):
    """Seconds: from spawn to health 200, from spawn to the first token, from SIGTERM until it is gone."""

    healthy: float
    first_token: float
    stop: float


def command_of(pid: int, port: int) -> Command:
    """The command line and environment of a running engine of ours. Raises OSError if it is gone."""
    argv = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    entries = Path(f"/proc/{pid}/environ").read_bytes().rstrip(b"\0").split(b"\0")
    env = dict(os.fsdecode(entry).partition("=")[::2] for entry in entries if b"=" in entry)
    return Command(tuple(map(os.fsdecode, argv)), env, port, key_in(env))


def key_in(env: Mapping[str, str]) -> str | None:
    """The key that Stoker gave the engine for this start: the one variable that says so by its name."""
    keys = [value for name, value in env.items() if name.endswith(("_API_KEY", "_ENGINE_KEY"))]
    return keys[0] if keys else None


class Running(NamedTuple):
    """An engine by itself. `healthy`: seconds from spawn to health 200."""

    child: Child
    command: Command
    healthy: float


@contextlib.contextmanager
def running(command: Command, log: Path, patience: float = 60.0) -> Iterator[Running]:
    """The same command on another port, until the block ends. Raises RuntimeError with its last words if it does not
    come up.
    """
    here = command.on(free_port())
    began = time.perf_counter()
    child = Child.start("engine alone", here.argv, log, here.env)
    try:
        yield Running(child, here, _await_health(child, here.port, began, patience))
    finally:
        child.end()


def measure(command: Command, model: str, log: Path, patience: float = 60.0) -> Own:
    """Start, wait for health, ask, stop. Raises as `running`."""
    began = time.perf_counter()
    with running(command, log, patience) as engine:
        asked = time.perf_counter() - began
        first = asked + calls.chat(engine.command.port, model, engine.command.key).first
        return Own(engine.healthy, first, _stop(engine.child))


def _await_health(child: Child, port: int, began: float, patience: float) -> float:
    while time.perf_counter() - began < patience and child.is_alive():
        if _is_listening(port):
            with contextlib.suppress(OSError, http.client.HTTPException):  # not yet
                status, _ = calls.get(port, "/health", timeout=2)
                if status == 200:
                    return time.perf_counter() - began
        time.sleep(POLL)
    raise RuntimeError(
        f"the engine by itself did not come up in {patience:.0f} s; its last words:\n{child.last_words()}"
    )


def _is_listening(port: int) -> bool:
    """Cheaper than a request, so that looking every millisecond does not slow the start that is looked at."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _stop(child: Child) -> float:
    """SIGTERM; seconds until it is gone, seen at once."""
    descriptor = os.pidfd_open(child.pid)
    try:
        began = time.perf_counter()
        os.kill(child.pid, signal.SIGTERM)
        gone, _, _ = select.select([descriptor], [], [], 30)
        if not gone:
            raise RuntimeError("the engine by itself ignored SIGTERM for 30 s")
        return time.perf_counter() - began
    finally:
        os.close(descriptor)


def loaded(command: Command, model: str, times: int) -> Sequence[float]:
    """Time to the first token of the engine that Stoker runs, asked directly."""
    return [calls.chat(command.port, model, command.key).first for _ in range(times)]
