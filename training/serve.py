"""The embedded llama.cpp server and plain HTTP to it."""

from __future__ import annotations

import json
import socket
import urllib.request
from pathlib import Path
from typing import Any

import xllamacpp


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """A model on a llama.cpp server of this process; it lives until the object is dropped."""

    def __init__(self, model: Path, parallel: int = 1, context: int = 2048) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.hostnames = ["127.0.0.1"]
        params.port = free_port()
        params.n_ctx = context * parallel
        params.n_parallel = parallel
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = 1
        params.n_threads_http = 2
        params.cache_ram_mib = 0
        params.warmup = False
        params.verbosity = -1
        self.url = f"http://127.0.0.1:{params.port}"
        self.prompt_tokens = 0  # of all answers so far, as the server counted them
        self.server = xllamacpp.Server(params)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            found = dict(json.load(reply))
        usage = found.get("usage", {})
        self.prompt_tokens += usage.get("prompt_tokens", usage.get("input_tokens", 0))
        return found
