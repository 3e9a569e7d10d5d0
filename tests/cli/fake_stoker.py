"""A running Stoker's control socket, played by the test: what it was asked, and what it answers."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

Answer = tuple[int, Any]


def serve_status(name: str, state: str = "stopped", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "engine": "llama.cpp", "model": f"/m/{name}.gguf", "served_name": name, "aliases": [],
        "slot": "gpu0", "status": "production", "state": state, "in_flight": 0, "queued": 0, "max_active": 4,
        "pid": 100 if state == "ready" else None, "port": 9000 if state == "ready" else None,
        "uptime": 12.0 if state == "ready" else None, "swap_seconds": 4.0, "swap_seconds_assumed": False,
        "memory": None, "facts": {}, "backoff": None, "last_error": None, "dialects": ["chat"],
    } | more  # fmt: skip


def status(*serves: dict[str, Any], swap: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    resident = [s["name"] for s in serves if s["slot"] == "gpu0" and s["state"] in ("ready", "draining")]
    return {
        "version": "0.1.0", "pid": 4242, "started_at": 0.0, "draining": False,
        "frontdoor": {"auth": "none", "host": "127.0.0.1", "port": 8000, "base_url": "http://127.0.0.1:8000/v1",
                      "max_active_generations": 4, "in_flight": 0},
        "model_slot": None,
        "slots": [{"name": "gpu0", "devices": ["0"], "memory": None, "resident": resident, "swap": swap,
                   "swaps": 3, "waiting": 1}],
        "serves": list(serves), "decisions": {"kept": 0, "dropped": 0},
    } | more  # fmt: skip


def paused(reason: str, *by: str) -> dict[str, Any]:
    """The slots of a status of which the only one is paused."""
    return {
        "slots": [{"name": "gpu0", "devices": ["0"], "resident": [], "paused": reason, "paused_by": list(by),
                   "yields_to": ["comfyui"], "yields_above": 2**31}]
    }  # fmt: skip


def swap(phase: str, target: str | None, stopping: list[str], **more: Any) -> dict[str, Any]:
    return {"generation": 1, "target": target, "stopping": stopping, "phase": phase, "elapsed": 1.0,
            "drain_wait": None, "expected": 4.0} | more  # fmt: skip


class FakeStoker:
    """Answers by `routes`, keyed by `METHOD /path`; `asked` lists every request with its body,
    `headers` their headers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[tuple[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.routes: dict[str, Callable[[Any], Answer]] = {}
        self.status(serve_status("fast", "ready"), serve_status("slow"))
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def _answer(self, body: Any) -> None:
                asked = f"{self.command} {self.path}"
                fake.asked.append((asked, body))
                fake.headers.append({name.lower(): value for name, value in self.headers.items()})
                route = fake.routes.get(asked)
                code, document = route(body) if route else (404, error("no such path", "not_found"))
                raw = document if isinstance(document, bytes) else json.dumps(document).encode()
                self.send_response(code)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = False

            def get_request(self) -> Any:
                request, _ = super().get_request()
                return request, ("unix", 0)  # the handler wants an address to name

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that leaves in the middle is what some tests are about

        self._server = Server(str(path), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def status(self, *serves: dict[str, Any], **more: Any) -> None:
        """Of these serves; whichever is ready would be stopped for any other."""
        self.answer("GET /status", status(*serves, **more))
        ready = [serve["name"] for serve in serves if serve["state"] == "ready"]

        def preview(body: Any) -> Answer:
            name = body.get("serve")
            if name is None:
                return 200, {"serves": [serve["name"] for serve in serves if serve["state"] == "stopped"]}
            victims = [] if name in ready else ready
            return 200, {"serve": name, "ready": name in ready, "victims": victims, "waits": False, "refusal": None}

        self.routes["POST /admin/preview"] = preview

    def answer(self, asked: str, document: Any, code: int = 200) -> None:
        self.routes[asked] = lambda body: (code, document)

    def posts(self) -> list[tuple[str, Any]]:
        """Without the questions that change nothing."""
        questions = ("POST /admin/preview",)
        return [(asked, body) for asked, body in self.asked if asked.startswith("POST") and asked not in questions]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.path.unlink(missing_ok=True)


def error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "x", "code": code, "source": "stoker"}}
