"""A real llama.cpp with a shipped model, and preflight of whatever stands before it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

import stoker
from stoker.domain.lease import Target
from stoker.domain.run import Finding, Outcome, Run, Subject
from stoker_lab.preflight.run import PreflightOptions, run_preflight
from stoker_lab.testing.faults.fault import PlayedAbility, ServingFault
from stoker_lab.testing.faults.proxy import FaultProxy

MODELS = Path(stoker.__file__).parent / "models"
PATIENCE = 30.0
needs_llama = [
    pytest.mark.llama,
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the embedded engine is not installed"),
]


@contextmanager
def engine(weights: Path, *extra: str, name: str = "ember", context: int = 2048) -> Iterator[int]:
    """The embedded llama.cpp; gives its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = f"-np 4 -c {4 * context} -t 1 --temp 0 --metrics --slots --cache-ram 0 --alias {name} --port {port}"
    command = [sys.executable, "-m", "stoker.engines.embedded", "-m", str(weights), *words.split(), *extra]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))
    try:
        _wait(port, process)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"the engine did not come up: {process.poll()}")


def prove(port: int, model: str = "ember", only: Sequence[str] = (), **options: object) -> Run:
    """Preflight of what listens there."""
    subject = Subject(model, model, f"http://127.0.0.1:{port}/v1", route="direct")
    chosen = PreflightOptions(only=only, **options)  # type: ignore[arg-type]
    return asyncio.run(run_preflight(subject, Target("127.0.0.1", port, "", model), chosen))


def behind(
    port: int, fault: ServingFault, only: Sequence[str], grafts: Sequence[PlayedAbility] = (), **options: object
) -> Run:
    """Preflight of what listens there, seen through a proxy with this fault."""

    async def run() -> Run:
        target = Target("127.0.0.1", port, "", "ember")
        async with FaultProxy(target, fault, grafts) as proxy:
            own = Target("127.0.0.1", proxy.port, "", "ember")
            subject = Subject("ember", "ember", "http://127.0.0.1/v1")
            return await run_preflight(subject, own, PreflightOptions(only=only, **options))  # type: ignore[arg-type]

    return asyncio.run(run())


def failed(run: Run) -> dict[str, Finding]:
    return {one.name: one for one in run.findings if one.outcome is Outcome.FAILED}


def outcomes(run: Run) -> dict[str, str]:
    return {one.name: one.outcome.value for one in run.findings}
