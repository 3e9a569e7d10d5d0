"""Serves a site that is in memory, to this machine alone: nothing on disk can be reached."""

from __future__ import annotations

import http.server
import json
import mimetypes
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Referrer-Policy": "no-referrer"}


class DocsServer(http.server.ThreadingHTTPServer):
    """The files below `/VERSION/`, as the published site has them. Raises OSError if the port is taken."""

    daemon_threads = True

    def __init__(self, files: Mapping[str, bytes], version: str, port: int) -> None:
        self.files = {f"/{version}/{path}": content for path, content in files.items()}
        self.first = f"/{version}/"
        listed = [{"version": version, "title": version, "aliases": []}]
        self.files["/versions.json"] = json.dumps(listed).encode()
        super().__init__(("127.0.0.1", port), DocsHandler)

    def url(self, location: str = "") -> str:
        """The address of a page or section."""
        return f"http://127.0.0.1:{self.server_port}{self.first}{location}"


class DocsHandler(http.server.BaseHTTPRequestHandler):
    """One request: a file, a redirect, or 404."""

    server: DocsServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        for name in (path, f"{path}index.html" if path.endswith("/") else ""):
            if name in self.server.files:
                kind = mimetypes.guess_type(name)[0] or "text/plain"
                return self._answer(200, self.server.files[name], kind)
        if f"{path}/index.html" in self.server.files:
            return self._answer(301, b"", "text/plain", f"{path}/")
        if path == "/":
            return self._answer(302, b"", "text/plain", self.server.first)
        missing = self.server.files.get(
            f"{self.server.first}404.html",
            b"no such page; if a page of docs/ links to it, it is elsewhere in the repository\n",
        )
        return self._answer(404, missing, "text/html" if missing[:1] == b"<" else "text/plain")

    do_HEAD = do_GET

    def _answer(self, status: int, body: bytes, kind: str, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in {**_HEADERS, **({"Location": location} if location else {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are nobody's business."""
