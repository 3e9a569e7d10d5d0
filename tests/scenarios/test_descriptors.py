"""Clients that hold connections open and ask nothing do not keep others out, however few descriptors there are."""

from __future__ import annotations

import contextlib
import resource
import socket
import time

import psutil
import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve

LIMIT = 200


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


def hold(plane: Plane, count: int, lines: list[socket.socket]) -> None:
    """Connections with the begin of a head."""
    for _ in range(count):
        with contextlib.suppress(OSError):
            lines.append(socket.create_connection(("127.0.0.1", plane.port), timeout=5))
            lines[-1].sendall(b"POST /v1/chat/completions HTTP/1.1\r\n")


@pytest.mark.timeout(120)
@story
async def test_slow_clients_do_not_keep_others_out() -> None:
    with running(serve("a"), started=False) as plane:
        plane.start(prepare=few_descriptors)
        lines: list[socket.socket] = []
        try:
            for _ in range(4):
                hold(plane, 150, lines)
                assert (await ask(plane, "a", "script: tokens=2")).status == 200
                assert plane.run("serves", "status").returncode == 0
            assert plane.process is not None
            process = psutil.Process(plane.process.pid)
            before, began = sum(process.cpu_times()[:2]), time.monotonic()
            while time.monotonic() < began + 2:
                time.sleep(0.1)
            assert sum(process.cpu_times()[:2]) - before < 0.5, "it does not spin"
        finally:
            for line in lines:
                line.close()
