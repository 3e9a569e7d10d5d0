"""Two closed-loop clients that want different models from one slot: what hysteresis saves."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.engines import EngineSetup
from bench.swap import calls
from bench.swap.plane import Plane

THINK = 0.3
"""Seconds between an answer and the same client's next request."""


class Alternation(msgspec.Struct, frozen=True):
    """One run. Seconds."""

    kind: str
    title: str
    hysteresis: bool
    requests: int
    """Per client."""
    swaps: int
    total: float
    """From the first request to the last answer of both."""
    waits: list[float]
    """Request to complete answer, all requests."""
    failures: list[str]


class _Client(threading.Thread):
    """Asks for one model, thinks, asks again."""

    def __init__(self, plane: Plane, serve: str, requests: int, until: float) -> None:
        super().__init__(name=f"client-{serve}", daemon=True)
        self._plane, self._serve, self._requests, self._until = plane, serve, requests, until
        self.waits: list[float] = []
        self.failures: list[str] = []

    def run(self) -> None:
        for number in range(self._requests):
            if time.perf_counter() > self._until:
                self.failures.append(f"{self._serve}: {self._requests - number} requests not sent before the deadline")
                return
            try:
                timed = calls.chat(self._plane.port, self._serve, self._plane.key, stream=False, timeout=180)
            except (OSError, http.client.HTTPException, calls.Failed) as error:
                self.failures.append(f"{self._serve}: {error!r}")
            else:
                self.waits.append(timed.total)
            if number + 1 < self._requests:
                time.sleep(THINK)


def run(
    kind: EngineSetup, folder: Path, requests: int, swap: str, deadline: float, say: Callable[[str], None]
) -> Alternation:
    """Both clients start together on an empty slot; `swap` is the configuration's [swap] table."""
    hysteresis = not swap
    say(f"{kind.title}: two clients, {requests} requests each, hysteresis {'on' if hysteresis else 'off'}")
    with Plane(kind, folder, swap) as plane:
        before, began = plane.swaps(), time.perf_counter()
        clients = [_Client(plane, serve, requests, began + deadline) for serve in "ab"]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        total = time.perf_counter() - began
        return Alternation(
            kind.name,
            kind.title,
            hysteresis,
            requests,
            plane.swaps() - before,
            total,
            [wait for client in clients for wait in client.waits],
            [failure for client in clients for failure in client.failures],
        )
