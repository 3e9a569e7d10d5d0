"""What clients notice of restarts: `python -m bench.restarting [--times N] [--streams N] [--json FILE]`.

The same load on each way to restart Stoker: so many clients, each of which reads one streamed answer after the other,
every second one over a connection that it keeps. Counted are refused and reset connections, streams without their end,
and how long a client waited for its first byte. The models are left running in all three ways.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench import machine
from bench.figures import table
from bench.up import program
from stoker_lab.testing.script.script import Script

TOKENS = 60
GAP = 0.01
PAUSE = 1.0
"""Seconds under load before each restart."""
PATIENCE = 60.0
LEAVE = "--leave-running"


@dataclass
class Notice:
    """What the clients noticed."""

    complete: int = 0
    refused: int = 0
    cut: int = 0
    waits: list[float] = field(default_factory=list)
    """Seconds from the start of a request to its first byte."""


class Stoker:
    """The running `stoker up`, and the ways to restart it."""

    def __init__(self, stoker: str, folder: Path, port: int) -> None:
        self._folder, self._stoker, self.port = folder, stoker, port
        self._log = folder / "output.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._listening: socket.socket | None = None

    def start(self, *options: str, given: socket.socket | None = None) -> None:
        """Start one, and wait until it listens. `given`: the socket, as systemd passes it."""
        said = self._log.stat().st_size if self._log.exists() else 0
        argv = [self._stoker, "up", "--config", str(self._folder / "stoker.toml"), *options]
        prepare: Callable[[], object] | None = None
        if given is not None:
            argv = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"', "sh", *argv]
            handle = given.fileno()
            prepare = lambda: os.dup2(handle, 3)  # noqa: E731
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                argv, stdout=log, stderr=log, preexec_fn=prepare, pass_fds=() if given is None else (3,)
            )
        deadline = time.monotonic() + PATIENCE
        while b"listening on" not in self._log.read_bytes()[said:]:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"`stoker up` did not listen: {self._log.read_text()[-2000:]}")
            time.sleep(0.01)
        self._process = process

    def stop(self) -> None:
        """With SIGTERM, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)

    def stop_and_start(self) -> None:
        self.stop()
        self.start(LEAVE)

    def replace(self) -> None:
        before = self._process
        self.start(LEAVE, "--replace")
        if before is not None:
            before.wait(PATIENCE)

    def restart_activated(self) -> None:
        self.stop()
        self.start(LEAVE, given=self._listening)

    def keep_socket(self) -> None:
        """Start with a socket that this process keeps, as systemd does."""
        self._listening = socket.create_server(("127.0.0.1", self.port), backlog=2048)
        self.start(LEAVE, given=self._listening)

    def end(self) -> None:
        """Stop it and its models."""
        self.stop()
        if self._listening is not None:
            self._listening.close()
        self.start()  # it adopts the models that the last one left
        self.stop()


async def read_streams(port: int, notice: Notice, is_over: asyncio.Event, keeps: bool) -> None:
    """One client."""
    body = {
        "model": "a",
        "stream": True,
        "messages": [{"role": "user", "content": f"script: gap={GAP} tokens={TOKENS}"}],
    }
    data = json.dumps(body).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n%b" % (len(data), data)
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    while not is_over.is_set():
        began, has_begun = time.perf_counter(), False
        try:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            answer = b""
            while not answer.endswith(b"\r\n0\r\n\r\n"):
                piece = await reader.read(65536)
                if not piece:
                    raise ConnectionResetError
                if not has_begun:
                    has_begun = True
                    notice.waits.append(time.perf_counter() - began)
                answer += piece
            if b"data: [DONE]" not in answer or not answer.startswith(b"HTTP/1.1 200"):
                raise ConnectionResetError
            notice.complete += 1
        except OSError:
            notice.cut += has_begun
            notice.refused += not has_begun
            await asyncio.sleep(0.05)  # as clients do before they try again
            keeps_now = False
        else:
            keeps_now = keeps and b"connection: close" not in answer.partition(b"\r\n\r\n")[0].lower()
        if not keeps_now and writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            reader = writer = None
    if writer is not None:
        writer.close()


async def restart_under_load(
    port: int, streams: int, times: int, restart: Callable[[], None]
) -> tuple[Notice, list[float]]:
    """What the clients noticed, and the seconds of each restart."""
    notice, is_over, seconds = Notice(), asyncio.Event(), []
    async with asyncio.TaskGroup() as tasks:
        for number in range(streams):
            tasks.create_task(read_streams(port, notice, is_over, number % 2 == 0))
        for _ in range(times):
            await asyncio.sleep(PAUSE)
            began = time.perf_counter()
            await asyncio.to_thread(restart)
            seconds.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE)
        is_over.set()
    return notice, seconds


def measure(way: str, stoker: str, folder: Path, streams: int, times: int) -> tuple[Notice, list[float]]:
    """One way, from start to end. Raises RuntimeError."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = json.dumps(Script(id="a").command("{port}"))
    (folder / "stoker.toml").write_text(
        f'[front_door]\nport = {port}\n[paths]\nstate = "state"\n[[serve]]\nname = "a"\nengine = "openai"\n'
        f'max_active = {2 * streams}\nqueue_timeout = "60s"\ncmd = {command}\n'
    )
    running = Stoker(stoker, folder, port)
    restart = {
        "stop and start": running.stop_and_start, "--replace": running.replace,
        "systemd's socket": running.restart_activated,
    }[way]  # fmt: skip
    try:
        if way == "systemd's socket":
            running.keep_socket()
        else:
            running.start(LEAVE)
        return asyncio.run(restart_under_load(port, streams, times, restart))
    finally:
        running.end()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.restarting", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen")
    found = parser.parse_args(argv)
    stoker = program()
    if stoker is None:
        sys.stderr.write("no `stoker` command beside this Python: pip install -e . first\n")
        return 1
    facts, rows, seen = machine.facts(), [], {}
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        for number, way in enumerate(("stop and start", "--replace", "systemd's socket")):
            notice, seconds = measure(way, stoker, Path(folder) / str(number), found.streams, found.times)
            seen[way] = {"notice": notice, "seconds": seconds}
            waits = sorted(notice.waits)
            rows.append(
                (
                    way, notice.refused, notice.cut, notice.complete, f"{waits[-1]:.2f}",
                    f"{waits[len(waits) // 2] * 1e3:.0f}", f"{sorted(seconds)[len(seconds) // 2]:.2f}",
                )
            )  # fmt: skip
    if found.json is not None:
        found.json.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": facts, "ways": seen}), indent=1))
    print(machine.headline(facts))
    print(
        table(
            ("way", "refused", "cut", "complete", "longest wait s", "median wait ms", "restart s (median)"),
            [tuple(map(str, row)) for row in rows],
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
