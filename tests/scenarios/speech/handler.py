"""What the small engines of these tests share: HTTP, a list of models, and how they are started.

As a program of its own it is a web server that answers everything with a page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class EngineHandler(BaseHTTPRequestHandler):
    """Answers `/health` and `/v1/models`; `answer_post` and `answer_get` are for engines to override."""

    protocol_version = "HTTP/1.1"
    model = ""

    def do_GET(self) -> None:
        if self.path == "/health":
            self.reply(200, b'{"status": "ok"}')
        elif self.path == "/v1/models":
            self.reply_json({"object": "list", "data": [{"id": self.model, "object": "model"}]})
        else:
            self.answer_get()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            self.answer_post(body)
        except Exception as error:  # of the engine, too
            self.reply_json({"error": {"message": f"{error}", "type": "invalid_request_error"}}, 400)

    def answer_get(self) -> None:
        self.reply_json({"error": {"message": f"no path {self.path}"}}, 404)

    def answer_post(self, body: bytes) -> None:
        self.reply(200, b"<!DOCTYPE html><html><body>It works!</body></html>", "text/html")

    def reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, document: object, status: int = 200) -> None:
        self.reply(status, json.dumps(document).encode())

    def reply_in_chunks(self, body: bytes, kind: str, size: int = 4096) -> None:
        """As engines do that send audio while they make it."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for at in range(0, len(body), size):
            piece = body[at : at + size]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")


def run(handler: type[EngineHandler], prepare: Callable[[argparse.Namespace], None], *options: str) -> None:
    """Serve until SIGTERM. `prepare(options)` gets the options `--port`, `--model`, and those that are given here."""
    parser = argparse.ArgumentParser()
    for option in ("--port", "--model", *options):
        parser.add_argument(option, required=True)
    given = parser.parse_args()
    handler.model = given.model
    prepare(given)
    with ThreadingHTTPServer(("127.0.0.1", int(given.port)), handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    run(EngineHandler, lambda given: None)
