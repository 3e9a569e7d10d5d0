"""What large forms cost: `python -m bench.uploading [--megabytes N]`; with `--unfinished N`, what so many bodies leave.

Clients send forms with one file to `/v1/audio/transcriptions` of a running Stoker, the `model` behind the file. The
engine hashes what it gets. Stoker's resident memory is read every 5 ms, and `/healthz` asked: how late it answers is
what everybody else has to wait. Clients and engine run in this process.

`--unfinished N`: so many bodies of 28 MB come in turns and never end; small requests come after them, whose traces lie
above them in memory; the clients of the bodies leave.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import psutil

from bench import machine
from bench.figures import nearest_rank, table
from bench.processes import free_port
from bench.up import Up

CONFIG = """\
[front_door]
port = {port}
upload_limit = "1GiB"
[paths]
state = "state"
[[serve]]
name = "ears"
engine = "openai"
served_name = "whisper-large-v3"
base_url = "http://127.0.0.1:{engine}/v1"
dialects = ["transcription"]
max_active = 16
"""
LIMIT = 20.0
"""MB by which resident memory may rise with one upload."""
UNFINISHED = 28 * 10**6
"""Bytes."""
SETTLE = 2.0
PIECE = bytes(range(256)) * 1024
MARK = "5f2a9c"


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply({"status": "ok", "data": [{"id": "whisper-large-v3"}]})

    def do_POST(self) -> None:
        found, left = hashlib.sha256(), int(self.headers["content-length"])
        while left:
            piece = self.rfile.read(min(left, 2**20))
            found.update(piece)
            left -= len(piece)
        self._reply({"text": found.hexdigest()})

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _reply(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def parts(model: str) -> tuple[bytes, bytes]:
    """The form before its file and behind it."""
    begin = f'--{MARK}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    rest = f'\r\n--{MARK}\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n--{MARK}--\r\n'
    return begin.encode(), rest.encode()


def digest(pieces: int) -> str:
    """Of the form as the engine should get it."""
    begin, rest = parts("whisper-large-v3")
    found = hashlib.sha256(begin)
    for _ in range(pieces):
        found.update(PIECE)
    found.update(rest)
    return found.hexdigest()


def upload(port: int, pieces: int, texts: list[str]) -> None:
    """Send one form, and keep the answer's text."""
    begin, rest = parts("ears")
    size = len(begin) + pieces * len(PIECE) + len(rest)
    head = (
        f"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"content-type: multipart/form-data; boundary={MARK}\r\ncontent-length: {size}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=300) as line:
        line.sendall(head.encode() + begin)
        for _ in range(pieces):
            line.sendall(PIECE)
        line.sendall(rest)
        reply = b""
        while piece := line.recv(65536):
            reply += piece
    texts.append(str(json.loads(reply.partition(b"\r\n\r\n")[2]).get("text", reply[:200])))


class Found(NamedTuple):
    rise: float
    """MB."""
    seconds: float
    late: list[float]
    """Milliseconds of each answer of /healthz."""
    intact: bool


def measure(up: Up, pieces: int, count: int) -> Found:
    """`count` uploads at once."""
    process, texts = psutil.Process(up.pid), list[str]()
    threads = [threading.Thread(target=upload, args=(up.port, pieces, texts)) for _ in range(count)]
    front = http.client.HTTPConnection("127.0.0.1", up.port, timeout=60)
    before = peak = process.memory_info().rss
    late, began = list[float](), time.perf_counter()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        peak = max(peak, process.memory_info().rss)
        asked = time.perf_counter()
        front.request("GET", "/healthz")
        front.getresponse().read()
        late.append(1000 * (time.perf_counter() - asked))
        time.sleep(0.005)
    front.close()
    return Found((peak - before) / 1e6, time.perf_counter() - began, late, texts == [digest(pieces)] * count)


def unfinished(count: int) -> str:
    """A table: resident memory before, while the bodies are there, and each second after."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as clients:
        port = free_port()
        text = CONFIG.format(port=port, engine=9).replace('"1GiB"', '"1GiB"\nbody_budget = "3GiB"')
        with Up(Path(folder), text, port, {}) as up:
            process = psutil.Process(up.pid)
            time.sleep(SETTLE)
            before = process.memory_info().rss
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
            lines = [clients.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)]
            for line in lines:
                line.sendall(head % (UNFINISHED + 1))
            for _ in range(UNFINISHED // len(PIECE)):
                for line in lines:
                    line.sendall(PIECE)
            late = [clients.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(20)]
            for line in late:
                line.sendall(head % 200_001 + bytes(150_000))
            time.sleep(SETTLE)
            full = process.memory_info().rss
            for line in lines:
                line.close()
            after = []
            for _ in range(10):
                time.sleep(1)
                after.append(process.memory_info().rss / 1e6)
    row = (f"{count} x 28 MB", f"{before / 1e6:.0f}", f"{full / 1e6:.0f}", *(f"{after[at]:.0f}" for at in (0, 4, 9)))
    return table(("unfinished bodies", "memory before, MB", "with them", "1 s after", "5 s", "10 s"), [row])


def run(megabytes: int, counts: Sequence[int]) -> tuple[str, bool]:
    """The table, and whether the memory of one upload and the bytes of all are as they should be."""
    engine = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    rows, is_reached = [], True
    try:
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            text = CONFIG.format(port=port, engine=engine.server_address[1])
            with Up(Path(folder), text, port, {}) as up:
                measure(up, 20, 1)  # what the first upload loads stays
                for count in counts:
                    found = measure(up, megabytes * 1_000_000 // len(PIECE), count)
                    is_reached = is_reached and found.intact and found.rise < LIMIT * count
                    rows.append([
                        f"{count} x {megabytes} MB", f"{found.rise:.1f}", f"{found.seconds:.2f}",
                        f"{nearest_rank(found.late, 0.5) or 0:.1f}", f"{nearest_rank(found.late, 0.99) or 0:.1f}",
                        f"{max(found.late):.1f}", "yes" if found.intact else "NO",
                    ])  # fmt: skip
    finally:
        engine.shutdown()
        engine.server_close()
    head = ["uploads", f"memory, MB (< {LIMIT:.0f} each)", "seconds", "/healthz ms: median", "p99", "worst", "intact"]
    return table(head, rows), is_reached


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.uploading", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=200, metavar="N", help="size of each form (default 200)")
    parser.add_argument("--unfinished", type=int, metavar="N", help="what N unfinished bodies leave in memory instead")
    options = parser.parse_args(argv)
    print(machine.headline(machine.facts()))
    if options.unfinished is not None:
        print(unfinished(options.unfinished))
        return 0
    text, is_reached = run(options.megabytes, (1, 4))
    print(text)
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
