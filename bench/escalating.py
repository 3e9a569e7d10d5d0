"""What it costs that a tier answered wrong: `python -m bench.escalating [--requests N]`.

Two models behind one `stoker up`: `near` answers nothing after 20 ms, which is found wrong, asked for once more and
thrown away; `far` answers after 20 ms. One request goes straight to `far`, the next by way of `near`, in turn. What the
second took longer is set beside what the decision says that `near` took: the rest is Stoker's own.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench import machine
from bench.figures import table
from bench.processes import Child, free_port
from bench.swap import calls
from bench.swap.plane import program

THINKS = 0.02
"""Seconds that a model takes for an answer."""
CONFIG = """\
[front_door]
port = {port}
[paths]
state = "state"
logs = "logs"
[[serve]]
name = "near-model"
driver = "external"
base_url = "http://127.0.0.1:{near}/v1"
[[tier]]
name = "near"
serve = "near-model"
classes = ["chat"]
verify = "hold-all"
cost = {{ input = 0.0, output = 0.0 }}
[[tier]]
name = "far"
base_url = "http://127.0.0.1:{far}/v1"
model = "far-model"
verify = "off"
cost = {{ input = 1.0, output = 2.0 }}
"""


def serving(text: str, name: str) -> ThreadingHTTPServer:
    """A model that says `text`."""
    body = json.dumps(
        {
            "id": "c", "object": "chat.completion", "created": 1, "model": name,
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        }
    ).encode()  # fmt: skip
    models = json.dumps({"object": "list", "data": [{"id": name, "object": "model"}]}).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            time.sleep(THINKS)
            self._send(body)

        def do_GET(self) -> None:
            self._send(models)

        def _send(self, what: bytes) -> None:
            head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(what)}\r\n\r\n"
            self.wfile.write(head.encode() + what)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def ask(front: http.client.HTTPConnection, task: str) -> tuple[float, str]:
    """Seconds, and the request's id. Raises RuntimeError for anything but an answer."""
    document = {"model": f"auto:{task}", "messages": [{"role": "user", "content": "hello"}]}
    began = time.perf_counter()
    front.request("POST", "/v1/chat/completions", json.dumps(document), {"content-type": "application/json"})
    reply = front.getresponse()
    body = reply.read()
    took = time.perf_counter() - began
    if reply.status != 200:
        raise RuntimeError(f"auto:{task}: status {reply.status}: {body[:300]!r}")
    return took, reply.headers["x-request-id"]


def measured(folder: Path, count: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds: straight to `far`; by way of `near`; and what the decision says that `near` took of the latter."""
    stoker = program()
    if stoker is None:
        raise RuntimeError("no `stoker` command beside this Python: pip install -e . first")
    near, far, port = serving("", "near-model"), serving("hello to you", "far-model"), free_port()
    config = folder / "stoker.toml"
    config.write_text(CONFIG.format(port=port, near=near.server_port, far=far.server_port))
    child = Child.start("stoker", (stoker, "up", "--config", str(config)), folder / "output.log")
    front = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with contextlib.suppress(OSError, http.client.HTTPException):  # not yet
                if calls.get(port, "/healthz", timeout=2)[0] == 200:
                    break
            time.sleep(0.01)
        for task in ("creative", "chat"):  # both are looked at before the clock starts
            ask(front, task)
        straight, escalated = zip(*[(ask(front, "creative")[0], ask(front, "chat")) for _ in range(count)], strict=True)
        time.sleep(0.5)  # decisions are written by a thread
        front.request("GET", f"/admin/decisions?limit={2 * count}")
        kept = {one["id"]: one["routed"]["attempts"] for one in json.loads(front.getresponse().read())["decisions"]}
    finally:
        front.close()
        child.end(grace=20)
        near.shutdown()
        far.shutdown()
    attempts = [kept[request] for _, request in escalated]
    if any([one["tier"] for one in each] != ["near", "far"] for each in attempts):
        raise RuntimeError("not every request went from near to far")
    return list(straight), [took for took, _ in escalated], [each[0]["seconds"] for each in attempts]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.escalating", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=200, metavar="N", help="of each kind (default 200)")
    found = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        straight, escalated, near = measured(Path(folder), found.requests)
    base = statistics.median(straight)
    rest = [took - attempt - base for took, attempt in zip(escalated, near, strict=True)]
    rows = [("straight to far", straight), ("by way of near", escalated), ("of that at near", near), ("the rest", rest)]
    print(machine.headline(machine.facts()))
    print(table(["ms", "p50", "p90"], [[name, *(f"{1000 * at:.2f}" for at in spread(seen))] for name, seen in rows]))
    return 0


def spread(seen: Sequence[float]) -> tuple[float, float]:
    return statistics.median(seen), statistics.quantiles(seen, n=10)[-1]


if __name__ == "__main__":
    sys.exit(main())
