"""A real server on loopback, as unreliable as a test wants it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Manners:
    """How it behaves; a test changes it at any time."""

    ranges: bool = True
    etag: str | None = '"one"'
    modified: str | None = None
    length: int | None = None
    """What it says, whatever it has."""
    says_length: bool = True
    chunked: bool = False
    drops: list[int] = field(default_factory=list)
    """Of each body in turn: after how many bytes of it the line breaks. Used up: none does."""
    statuses: list[int] = field(default_factory=list)
    """Of each answer in turn, instead of what was asked for."""
    redirects: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    span: str | None = None
    """`content-range`, whatever it sends."""
    extra: bytes = b""
    hold: threading.Event | None = None
    """Set: the second half of a body waits for it."""


class Web:
    """`files` by path; `asked` lists path and range of every GET for more than one byte."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.manners = Manners()
        self.asked: list[tuple[str, str]] = []
        self.seen: list[dict[str, str]] = []
        self.began = threading.Event()
        self.gone = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.close_connection = True
                web.seen.append({name.lower(): value for name, value in self.headers.items()})
                span = self.headers.get("range", "")
                if span != "bytes=0-0":
                    web.asked.append((self.path, span))
                web.answer_get(self, span)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = False

            def handle_error(self, request: object, client_address: object) -> None:
                pass  # clients that leave are what some tests are about

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.gone.set()
        if self.manners.hold is not None:
            self.manners.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer_get(self, handler: BaseHTTPRequestHandler, span: str) -> None:
        manners = self.manners
        path = handler.path.partition("?")[0]
        if path in manners.redirects:
            self._end(handler, 302, {"location": manners.redirects[path]})
        elif manners.statuses:
            self._end(handler, manners.statuses.pop(0), {})
        elif path not in self.files:
            self._end(handler, 404, {})
        else:
            self._send(handler, self.files[path], span)

    def _end(self, handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
        handler.send_response(status)
        for name, value in {**headers, "content-length": "0"}.items():
            handler.send_header(name, value)
        handler.end_headers()

    def _send(self, handler: BaseHTTPRequestHandler, whole: bytes, span: str) -> None:
        manners = self.manners
        headers = dict(manners.headers)
        if manners.etag:
            headers["etag"] = manners.etag
        if manners.modified:
            headers["last-modified"] = manners.modified
        condition = handler.headers.get("if-range")
        is_part = bool(span) and manners.ranges and condition in (None, manners.etag, manners.modified)
        body = whole
        if is_part:
            first, _, last = span.removeprefix("bytes=").partition("-")
            body = whole[int(first) : int(last) + 1 if last else None]
            if not body:
                self._end(handler, 416, {"content-range": f"bytes */{len(whole)}"})
                return
            end = int(first) + len(body) - 1
            headers["content-range"] = manners.span or f"bytes {first}-{end}/{len(whole)}"
        handler.send_response(206 if is_part else 200)
        if manners.chunked:
            headers["transfer-encoding"] = "chunked"
        elif manners.says_length:
            headers["content-length"] = str(manners.length or len(body))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        is_look = span == "bytes=0-0"
        stop = manners.drops.pop(0) if manners.drops and not is_look else None
        body = body[:stop]
        for piece in (body[: len(body) // 2], body[len(body) // 2 :]):
            if piece:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if manners.chunked else piece)
                handler.wfile.flush()
            self.began.set()
            if manners.hold is not None and not is_look:
                manners.hold.wait(30)
        if manners.chunked and stop is None:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(manners.extra), manners.extra) * bool(manners.extra))
            handler.wfile.write(b"0\r\n\r\n")
