"""What a cluster adds to a cold start: `python -m bench.cluster [--starts N]`.

The demo model, started for a request, by turns as a process of this machine and as a job of a real Ray: a head and two
nodes on loopback addresses (`scripts/ray-playground`). Measured is the time from the request to its answer of one
token; before each, the serve is stopped. Then one request in a row to each while both are loaded: what the relay costs.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.ray_playground import Playground, install

import stoker
from bench.figures import show_spread, spread, table
from bench.processes import free_port
from bench.up import Up

MODEL = Path(stoker.__file__).parent / "models" / "spark.gguf"
ENGINE = "-m stoker.engines.embedded -m {model} --host {host} --port {port} --alias {name} -t 1"
WARM = 200


def _serve(name: str, slot: str) -> str:
    return f'[[serve]]\nname = "{name}"\nmodel = "{MODEL}"\ncmd = "{sys.executable} {ENGINE}"\nslot = "{slot}"\n'


def _post(port: int, path: str, body: dict[str, object]) -> float:
    """Seconds until the whole answer is there."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    if reply.status != 200:
        raise RuntimeError(f"{path}: HTTP {reply.status}: {text.decode()[:300]}")
    return time.perf_counter() - began


def _ask(port: int, name: str) -> float:
    asked = {"model": name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0}
    return _post(port, "/v1/chat/completions", asked)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=15)
    options = parser.parse_args(arguments)
    if problem := install():
        print(problem, file=sys.stderr)
        return 1
    playground, port = Playground(first=42), free_port()
    configuration = (
        f"[front_door]\nport = {port}\n{playground.config()}[slots.here]\n"
        f'[warm]\nmemory = "0B"\n{_serve("process", "here")}{_serve("job", "alpha")}'
    )
    cold: dict[str, list[float]] = {"process": [], "job": []}
    warm: dict[str, list[float]] = {"process": [], "job": []}
    try:
        playground.start()
        with tempfile.TemporaryDirectory() as folder, Up(Path(folder), configuration, port, {"XDG_STATE_HOME": folder}):
            for name in cold:  # the first job starts Ray's worker processes, the first process reads the files
                _ask(port, name)
            for name in list(cold) * options.starts:
                _post(port, "/admin/unload", {"serve": name})
                cold[name].append(_ask(port, name))
            for name in list(warm) * WARM:
                warm[name].append(1000 * _ask(port, name))
    finally:
        playground.close()
    rows = [(name, show_spread(spread(cold[name]), 2), show_spread(spread(warm[name]), 2)) for name in cold]
    print(table(["started as", "cold, s", "loaded, ms"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
