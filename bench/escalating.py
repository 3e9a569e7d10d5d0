"""What it costs that a tier answered wrong: `python -m bench.escalating [--requests N]`.

Two models behind one `stoker up`: `near` answers nothing after 20 ms, which is found wrong, asked for once more and
thrown away; `far` answers after 20 ms. One request goes straight to `far`, the next by way of `near`, in turn. What the
second took longer is set beside what the decision says that `near` took: the rest is Stoker's own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench import machine
from bench.figures import table
from bench.processes import Child, free_port
from bench.up import Up

SCRIPTED = [sys.executable, "-m", "stoker_lab.testing.scripted", "--first-event-after", "0.02"]
NEAR = ["--port", "{port}", "--id", "near-model", "--tokens", "0"]
CONFIG = """\
[front_door]
port = {port}
[paths]
state = "state"
logs = "logs"
[[serve]]
name = "near-model"
engine = "openai"
model = "near-model"
cmd = {near}
[[tier]]
name = "near"
serve = "near-model"
classes = ["chat"]
verify = "hold-all"
[[tier]]
name = "far"
base_url = "http://127.0.0.1:{far}/v1"
cloud = true
model = "far-model"
verify = "off"
cost = {{ input = 1.0, output = 2.0 }}
"""


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
    port, far = free_port(), free_port()
    sky = Child.start("far", [*SCRIPTED, "--port", str(far), "--id", "far-model"], folder / "far.log")
    try:
        with Up(folder, CONFIG.format(port=port, far=far, near=json.dumps([*SCRIPTED, *NEAR])), port, {}):
            front = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            for task in ("creative", "chat"):  # both are loaded, or looked at, before the clock starts
                ask(front, task)
            taken = [(ask(front, "creative")[0], ask(front, "chat")) for _ in range(count)]
            time.sleep(0.5)  # decisions are written by a thread
            front.request("GET", f"/admin/decisions?limit={2 * count}")
            kept = {one["id"]: one["routed"]["attempts"] for one in json.loads(front.getresponse().read())["decisions"]}
            front.close()
    finally:
        sky.end()
    attempts = [kept[request] for _, (_, request) in taken]
    if any([one["tier"] for one in each] != ["near", "far"] for each in attempts):
        raise RuntimeError("not every request went from near to far")
    return [one for one, _ in taken], [one for _, (one, _) in taken], [each[0]["seconds"] for each in attempts]


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
