"""What readers of `GET /events` cost: `python -m bench.events [--seconds N]`.

A Stoker relays 50 requests a second to an engine that costs nothing, by turns without and with 20 readers of status,
swaps and decisions. Each request is a decision, so a reader gets at least 50 events a second. Counted are the CPU
time and the resident memory of the Stoker process.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.exchange import Ask, request
from bench.figures import show_spread, spread, table
from bench.processes import Child, cpu_seconds, free_port, resident_bytes
from bench.up import Up

RATE = 50
"""Requests a second."""
READERS = 20


class Phase(NamedTuple):
    """CPU in per cent of one core; memory in MiB at its end; events of one reader per second."""

    cpu: float
    memory: float
    events: float


class Reader(threading.Thread):
    """Reads one stream, as a page does, and counts its events."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._connection.request("GET", "/events?topics=status,swaps,decisions")
        self._socket = self._connection.sock
        self._reply = self._connection.getresponse()

    def run(self) -> None:
        while line := self._reply.readline():
            self.count += line.startswith(b"event:")

    def leave(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self._connection.close()


def phase(up: Up, client: http.client.HTTPConnection, readers: int, seconds: float) -> Phase:
    reading = [Reader(up.port) for _ in range(readers)]
    for reader in reading:
        reader.start()
    time.sleep(1.0)  # snapshots are over
    counted = sum(reader.count for reader in reading)
    began, used = time.perf_counter(), cpu_seconds([up.pid])
    body = request("engine", Ask(1, stream=False), 2000).fill(b"00000001")
    for number in range(int(seconds * RATE)):
        time.sleep(max(0.0, began + number / RATE - time.perf_counter()))
        client.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        client.getresponse().read()
    took, used = time.perf_counter() - began, cpu_seconds([up.pid]) - used
    counted = sum(reader.count for reader in reading) - counted
    memory = resident_bytes([up.pid]) / 2**20
    for reader in reading:
        reader.leave()
    return Phase(100 * used / took, memory, counted / took / max(1, readers))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each phase (10)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    engine, port = free_port(), free_port()
    found: dict[int, list[Phase]] = {0: [], READERS: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        upstream = Child.start("engine", (sys.executable, "-m", "bench.upstream", str(engine)), folder / "engine.log")
        base = json.dumps(f"http://127.0.0.1:{engine}/v1")
        configuration = (
            f"[front_door]\nport = {port}\n[paths]\nstate = {json.dumps(name)}\n"
            f'[[serve]]\nname = "engine"\nbase_url = {base}\nidentity = "none"\n'
        )
        try:
            with Up(folder, configuration, port, {}) as up:
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                phase(up, client, 0, 3.0)
                for _ in range(options.rounds):
                    for readers, phases in found.items():
                        phases.append(phase(up, client, readers, options.seconds))
        finally:
            upstream.end()
    rows = [
        [str(readers), *(show_spread(spread([one[column] for one in phases])) for column in range(3))]
        for readers, phases in found.items()
    ]
    print(table(["readers", "CPU, % of a core", "memory, MiB", "events a second for each"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
