"""Whether large requests hold up the others: `python -m bench.flood [--senders N]`.

`/healthz` is asked every 5 ms while 16 clients send one large body each, all at once. First bodies of a million tiny
messages (30 MB) to every way through Stoker, then large ones that are what they should be. How late `/healthz` answers
is what everybody else has to wait. The senders are a process of their own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import machine
from bench.figures import table
from bench.processes import Child, free_port
from bench.up import Up

CONFIG = """\
[front_door]
port = {port}
body_budget = "1GiB"
[paths]
state = "state"
logs = "logs"
[[serve]]
name = "plain"
engine = "openai"
model = "plain"
driver = "external"
base_url = "http://127.0.0.1:{engine}/v1"
dialects = ["chat"]
max_active = 16
[[tier]]
name = "near"
serve = "plain"
verify = "off"
"""
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
TINY = b'{"role":"user","content":"x"}'


def tiny(model: str, count: int) -> bytes:
    return b'{"max_tokens":1,"model":"%b","messages":[%b]}' % (model.encode(), b",".join([TINY] * count))


def conversation(model: str, turns: int, size: int) -> bytes:
    text = 'def f(x):\n    return {"a": [x, "b"]}\n' * (size // 38)
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": text} for at in range(turns - 1)]
    asked = [*messages, {"role": "user", "content": text}]
    return json.dumps({"max_tokens": 1, "model": model, "messages": asked}).encode()


def image(model: str, size: int) -> bytes:
    data = "iVBORw0KGgoAAAANSUhEUgAA" * (size // 24)
    part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    asked = [{"role": "user", "content": [part, {"type": "text", "text": "what is it?"}]}]
    return json.dumps({"max_tokens": 1, "model": model, "messages": asked}).encode()


CASES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a million messages, unknown model": (CHAT, lambda: tiny("nobody", 1_000_000)),
    "a million messages, passed through": (CHAT, lambda: tiny("plain", 1_000_000)),
    "a million messages, translated": (MESSAGES, lambda: tiny("plain", 1_000_000)),
    "a million messages, routed": (CHAT, lambda: tiny("auto", 1_000_000)),
    "9,999 messages, translated": (MESSAGES, lambda: tiny("plain", 9_999)),
    "9,999 messages, routed": (CHAT, lambda: tiny("auto", 9_999)),
    "an image of 20 MB, translated": (MESSAGES, lambda: image("plain", 20_000_000)),
    "5 MB in one message, translated": (MESSAGES, lambda: conversation("plain", 1, 5_000_000)),
    "5 MB in one message, routed": (CHAT, lambda: conversation("auto", 1, 5_000_000)),
    "2,000 turns of 2.5 KB, translated": (MESSAGES, lambda: conversation("plain", 2000, 2500)),
    "2,000 turns of 2.5 KB, passed through": (CHAT, lambda: conversation("plain", 2000, 2500)),
}


def send(port: int, path: str, body: bytes, found: list[int]) -> None:
    """Its status; 0: the connection was closed before there was one."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\n"
            line.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode())
            line.sendall(body)
            found.append(int(line.recv(65536)[9:12] or 0))
    except (OSError, ValueError):
        found.append(0)


def flood(port: int, case: str, count: int) -> None:
    """What the senders' process does; prints when it begins, and the statuses."""
    path, make = CASES[case]
    body, found = make(), list[int]()
    threads = [threading.Thread(target=send, args=(port, path, body, found)) for _ in range(count)]
    print("begins", flush=True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(" ".join(f"{found.count(status)}x{status}" for status in sorted(set(found))), flush=True)


def probe(port: int, until: Callable[[], bool]) -> list[float]:
    """Milliseconds of each answer of /healthz."""
    front = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    taken = []
    while not until():
        began = time.perf_counter()
        front.request("GET", "/healthz")
        front.getresponse().read()
        taken.append(1000 * (time.perf_counter() - began))
        time.sleep(0.005)
    front.close()
    return taken


def measured(port: int, case: str, count: int) -> list[str]:
    argv = [sys.executable, "-m", "bench.flood", "--flood", case, "--port", str(port), "--senders", str(count)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as senders:
        assert senders.stdout is not None
        senders.stdout.readline()
        began = time.perf_counter()
        taken = probe(port, lambda: senders.poll() is not None)
        said = senders.stdout.read().strip()
    return row(case, taken, f"{time.perf_counter() - began:.1f}", said)


def row(case: str, taken: Sequence[float], took: str, said: str) -> list[str]:
    worst = sorted(taken)
    return [
        case,
        f"{statistics.median(worst):.1f}",
        f"{worst[len(worst) * 99 // 100]:.1f}",
        f"{worst[-1]:.1f}",
        took,
        said,
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.flood", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--senders", type=int, default=16, metavar="N", help="clients at once (default 16)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    found = parser.parse_args(argv)
    if found.flood:
        flood(found.port, found.flood, found.senders)
        return 0
    rows = []
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        port, engine = free_port(), free_port()
        scripted = [
            sys.executable,
            "-m",
            "stoker_lab.testing.scripted",
            "--port",
            str(engine),
            "--id",
            "plain",
            "--tokens",
            "1",
        ]
        model = Child.start("engine", scripted, Path(folder) / "engine.log")
        try:
            with Up(Path(folder) / "up", CONFIG.format(port=port, engine=engine), port, {}):
                ends = time.perf_counter() + 2
                rows.append(row("nothing else", probe(port, lambda: time.perf_counter() > ends), "2.0", ""))
                for case in CASES:
                    if found.only in case:
                        rows.append(measured(port, case, found.senders))
        finally:
            model.end()
    print(machine.headline(machine.facts()))
    print(table(["/healthz, ms, while sent", "p50", "p99", "most", "took, s", "answers"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
