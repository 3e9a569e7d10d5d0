"""The machine's memory belongs to the models: what large requests took is given back."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.scenarios.caller import ask, story
from tests.scenarios.plane import Plane, running, serve, until

COUNT, SIZE = 24, 28 * 10**6
WITHIN = 10.0
HEAD = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@contextmanager
def unfinished(plane: Plane) -> Iterator[None]:
    """Bodies that come in turns, piece by piece, and never end."""
    with ExitStack() as clients:
        lines = [
            clients.enter_context(socket.create_connection(("127.0.0.1", plane.port), timeout=30)) for _ in range(COUNT)
        ]
        for line in lines:
            line.sendall(f"{HEAD}content-length: {SIZE + 1}\r\n\r\n".encode())
        for _ in range(SIZE // 10**6):
            for line in lines:
                line.sendall(b" " * 10**6)
        yield


@pytest.mark.timeout(180)
@story
async def test_unfinished_bodies_leave_nothing_behind() -> None:
    with running(serve("a"), front_door='body_budget = "1GiB"') as plane:
        assert (await ask(plane, "a", "script: tokens=2")).status == 200
        before = plane.memory()
        with unfinished(plane):
            await until(lambda: plane.memory() > before + COUNT * SIZE * 0.9, "all bodies have arrived", 60)
            for _ in range(20):  # what is kept of them lies above the bodies
                assert (await ask(plane, "a", "script: tokens=2")).status == 200
            late = socket.create_connection(("127.0.0.1", plane.port), timeout=30)
            late.sendall(f"{HEAD}content-length: 200001\r\n\r\n".encode() + b" " * 200_000)
            time.sleep(0.5)
        with late:
            await until(lambda: plane.memory() < 1.3 * before, lambda: f"{plane.memory()} of {before}", WITHIN)


@pytest.mark.timeout(180)
@story
async def test_large_requests_that_were_read_leave_nothing_behind() -> None:
    with running(serve("a")) as plane:
        assert (await ask(plane, "a", "script: tokens=2")).status == 200
        before = plane.memory()
        for _ in range(4):
            assert (await ask(plane, "unknown", "x" * 20_000_000)).status == 404
        await until(lambda: plane.memory() < 1.3 * before, lambda: f"{plane.memory()} of {before}", WITHIN)
