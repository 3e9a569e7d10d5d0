"""An engine whose memory lies on a real GPU: it allocates `--gib` with PyTorch, and answers chat after a product of
matrices there.   gpu_engine.py --port PORT --id NAME --gib N
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch  # type: ignore[import-not-found,import-untyped,unused-ignore]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    name = ""

    def do_GET(self) -> None:
        self._reply({"object": "list", "data": [{"id": self.name, "object": "model"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        matrix = torch.eye(2048, device="cuda") * 3
        text = f"{self.name} says {int((matrix @ matrix)[5, 5].item())}"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
        self._reply({"id": "1", "object": "chat.completion", "model": self.name, "choices": [choice], "usage": usage})

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the log is for the engine's last words."""

    def _reply(self, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--id", required=True)
    parser.add_argument("--gib", type=float, required=True)
    given = parser.parse_args()
    Handler.name = given.id
    weights = torch.ones(int(given.gib * 2**30), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    print(f"{given.id} holds {weights.numel() / 2**30:.0f} GiB of {torch.cuda.get_device_name()}", flush=True)
    ThreadingHTTPServer(("127.0.0.1", given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
