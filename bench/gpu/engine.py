"""An OpenAI chat server on a plain PyTorch module, with vLLM's sleep. Stoker starts it as `vllm serve MODEL ...`.

MODEL is a folder of `models.write_folder`: config.json, and weights.bin, without which the weights are drawn on the
device. The module is layers x (matrix, gelu, matrix), one token at a time, so each token reads all weights. It is no
language model. Without PyTorch, or without a GPU, a stand-in holds as much main memory; it says so at its start.

Nothing but the standard library and PyTorch: its start counts.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol


class Weights(Protocol):
    asleep: bool

    def step(self, ids: list[int]) -> int:
        """The next token."""

    def sleep(self, level: int) -> None: ...

    def wake(self) -> None: ...


class StandIn:
    """Holds as many bytes of main memory as the weights would take of the device."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config
        limit = config.get("bench_limit")
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        self.wake()

    def step(self, ids: list[int]) -> int:
        return (ids[-1] * 31 + len(ids)) % int(self._config["vocab_size"])

    def sleep(self, level: int) -> None:
        self._held.close()
        self.asleep = True

    def wake(self) -> None:
        try:
            self._held = mmap.mmap(-1, size_of(self._config))
        except OSError as error:
            raise MemoryError(f"{size_of(self._config)} bytes") from error
        for at in range(0, len(self._held), mmap.PAGESIZE):
            self._held[at] = 1
        self.asleep = False


class Module:
    """The weights on the GPU. `sleeps`: a pinned copy is made at the start, which level 1 wakes from: to pin it takes
    longer than Stoker waits for a sleep.
    """

    def __init__(self, config: dict[str, Any], folder: Path, sleeps: bool) -> None:
        import torch

        self._torch = torch
        self._folder = folder
        wide, hidden = int(config["hidden_size"]), int(config["intermediate_size"])
        self._shapes = [(hidden, wide), (wide, hidden)] * int(config["num_hidden_layers"])
        torch.manual_seed(0)
        self._embedding = torch.randn(int(config["vocab_size"]), wide, device="cuda").bfloat16()
        self._load()
        self._host = [self._pinned(*one.shape).copy_(one) for one in self._weights] if sleeps else []

    def _load(self) -> None:
        torch, file = self._torch, self._folder / "weights.bin"
        if file.exists():
            with file.open("rb", buffering=0) as source:
                self._weights = [self._read(source, rows, columns) for rows, columns in self._shapes]
        else:
            self._weights = [
                torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16).mul_(columns**-0.5)
                for rows, columns in self._shapes
            ]
        torch.cuda.synchronize()
        self.asleep = False

    def _read(self, source: Any, rows: int, columns: int) -> Any:
        host = self._pinned(rows, columns)
        view = memoryview(host.view(self._torch.uint8).numpy().reshape(-1))
        while view:
            view = view[source.readinto(view) or len(view) :]
        return host.to("cuda")

    def _pinned(self, rows: int, columns: int) -> Any:
        return self._torch.empty(rows, columns, dtype=self._torch.bfloat16, pin_memory=True)

    def step(self, ids: list[int]) -> int:
        torch = self._torch
        with torch.inference_mode():
            state = self._embedding[ids[-1]] + self._embedding[ids].mean(0)
            for up, down in zip(self._weights[::2], self._weights[1::2], strict=True):
                state = torch.nn.functional.rms_norm(state + down @ torch.nn.functional.gelu(up @ state), state.shape)
            return int((self._embedding @ state).argmax())

    def sleep(self, level: int) -> None:
        if level != 1:
            self._host = []
        self._weights, self.asleep = [], True
        self._torch.cuda.empty_cache()
        self._torch.cuda.synchronize()

    def wake(self) -> None:
        if not self._host:
            return self._load()
        self._weights = [one.to("cuda", non_blocking=True) for one in self._host]
        self._torch.cuda.synchronize()
        self.asleep = False
        return None


def size_of(config: dict[str, Any]) -> int:
    return int(config["num_hidden_layers"]) * 4 * int(config["hidden_size"]) * int(config["intermediate_size"])


def has_gpu() -> bool:
    """Whether PyTorch is here and sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class Server(ThreadingHTTPServer):
    daemon_threads = True
    weights: Weights | None = None
    name = ""
    key = ""
    vocabulary = 1
    turn = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the log is for the engine's last words."""

    def do_GET(self) -> None:
        weights = self.server.weights
        if self.path == "/health":
            self._reply(200 if weights is not None else 503)
        elif self.path == "/is_sleeping":
            self._reply(200, {"is_sleeping": weights is not None and weights.asleep})
        elif self.path == "/version":
            self._reply(200, {"version": "0.0.0"})
        elif self.path == "/v1/models" and self._is_allowed():
            shown = {"id": self.server.name, "object": "model", "owned_by": "bench", "max_model_len": 32768}
            self._reply(200, {"object": "list", "data": [shown]})
        else:
            self._reply(404, {"error": {"message": "no such path"}})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        weights = self.server.weights
        if weights is None:
            return self._reply(503, {"error": {"message": "loading"}})
        if path in ("/sleep", "/wake_up"):
            began = time.perf_counter()
            with self.server.turn:
                if path == "/sleep":
                    weights.sleep(int(dict(part.partition("=")[::2] for part in query.split("&")).get("level", "1")))
                elif weights.asleep:
                    weights.wake()
            print(f"{path} took {time.perf_counter() - began:.3f} s", flush=True)
            return self._reply(200)
        if path == "/collective_rpc":
            return self._reply(200, {"results": [None]})
        if path not in ("/v1/chat/completions", "/v1/completions"):
            return self._reply(404, {"error": {"message": "no such path"}})
        if weights.asleep or not self._is_allowed():
            return self._reply(503 if weights.asleep else 401, {"error": {"message": "asleep, or no key"}})
        return self._answer(weights, json.loads(body), path == "/v1/chat/completions")

    def _answer(self, weights: Weights, asked: dict[str, Any], is_chat: bool) -> None:
        text = json.dumps(asked.get("messages") if is_chat else asked.get("prompt"))
        ids = [ord(letter) % self.server.vocabulary for letter in text]
        prompt, wanted = len(ids), int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 32)
        usage = {"prompt_tokens": prompt, "completion_tokens": wanted, "total_tokens": prompt + wanted}
        kind = "chat.completion" if is_chat else "text_completion"
        base = {"id": f"cmpl-{time.time_ns()}", "created": int(time.time()), "model": self.server.name, "object": kind}

        def next_word() -> str:
            with self.server.turn:
                ids.append(weights.step(ids))
            return f"t{ids[-1]} "

        def choice(piece: str, end: str | None, key: str) -> dict[str, Any]:
            said: dict[str, Any] = {key: {"role": "assistant", "content": piece}} if is_chat else {"text": piece}
            return {"index": 0, "finish_reason": end, **said}

        if not asked.get("stream"):
            whole = "".join(next_word() for _ in range(wanted))
            self._reply(200, {**base, "choices": [choice(whole, "length", "message")], "usage": usage})
            return
        base["object"] = "chat.completion.chunk" if is_chat else kind
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(wanted):
            end = "length" if number == wanted - 1 else None
            self._event({**base, "choices": [choice(next_word(), end, "delta")]})
        self._event({**base, "choices": [], "usage": usage})
        self._event(None)
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, document: object) -> None:
        data = b"data: " + (json.dumps(document).encode() if document is not None else b"[DONE]") + b"\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _is_allowed(self) -> bool:
        return not self.server.key or self.headers.get("Authorization") == f"Bearer {self.server.key}"

    def _reply(self, status: int, document: object = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--served-model-name", default="")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--enable-sleep-mode", action="store_true")
    given, ignored = parser.parse_known_args()
    began = time.perf_counter()
    config = json.loads((given.model / "config.json").read_text())
    server = Server((given.host, given.port), Handler)
    server.name = given.served_model_name or str(given.model)
    server.key, server.vocabulary = os.environ.get("VLLM_API_KEY", ""), int(config["vocab_size"])
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    is_real = has_gpu()
    server.weights = Module(config, given.model, given.enable_sleep_mode) if is_real else StandIn(config)
    what = "PyTorch" if is_real else "a stand-in without a GPU, which holds main memory"
    print(f"{what}: loaded in {time.perf_counter() - began:.2f} s; ignored {ignored}", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    try:
        main()
    except MemoryError as error:
        print(f"MemoryError: unable to allocate {error}", file=sys.stderr, flush=True)
        os._exit(1)
