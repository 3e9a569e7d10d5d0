"""A server on loopback that speaks the model hub's API, and a second one in the part of its store of large files.

Written by the hub's own documents: https://huggingface.co/docs/hub/api, and the headers that its client reads.
"""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
PAGE = 3
"""Entries of one page of a listing."""
LARGEST = 64 * 2**20


class HubStandIn:
    """`repositories`: files by path, by `ORG/REPO`; a Path is a file on disk, which may be sparse."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes | Path]] = {}
        self.token = ""
        """Without it `private` ones are not there."""
        self.private: set[str] = set()
        self.gated: set[str] = set()
        self.goes_on_at = ""
        """Where the next page of a listing is, as it says; empty: where it is."""
        self.answers: list[tuple[int, dict[str, str]]] = []
        """Of each request to the hub in turn, instead of what was asked for."""
        self.renamed: dict[str, str] = {}
        self.asked: list[str] = []
        self.store_saw: list[dict[str, str]] = []
        """The headers of each request to the store."""
        self.cuts: list[int] = []
        """Of each request to the store in turn, after how many bytes the connection breaks."""
        self.holds_after: int | None = None
        """After so many bytes of a file the store sends nothing more, until it is closed."""
        self.pause = 0.0
        """Seconds after each MiB that the store sends of a file."""
        self._is_over = threading.Event()
        self.digests: dict[str, str] = {}
        """By path: what the hub says instead of the file's own SHA-256."""
        self.sent = 0
        """Bytes of files."""
        self._hub = self._serve(self._hub_get)
        self._store = self._serve(self._store_get)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._hub[0].server_port}"

    def close(self) -> None:
        self._is_over.set()
        for server, thread in (self._hub, self._store):
            server.shutdown()
            server.server_close()
            thread.join()

    def _serve(self, get: Any) -> tuple[ThreadingHTTPServer, threading.Thread]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.close_connection = True
                get(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                pass  # clients leave as soon as they have enough

        server = Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        return server, thread

    def _hub_get(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        url = urlsplit(handler.path)
        words = [unquote(word) for word in url.path.split("/")[1:]]
        if self.answers:
            return _end(handler, *self.answers.pop(0))
        is_api = words[:2] == ["api", "models"]
        words = words[2:] if is_api else words
        name = "/".join(words[:2])
        if name in self.renamed:
            return _end(handler, 307, {"location": handler.path.replace(name, self.renamed[name], 1)})
        is_known = self.token and handler.headers.get("authorization") == f"Bearer {self.token}"
        if name not in self.repositories or (name in self.private and not is_known):
            return _end(handler, 401, {"x-error-code": "RepoNotFound"})
        files = self.repositories[name]
        if is_api and words[2] == "revision":
            return _end(handler, 200, {}, json.dumps({"id": name, "sha": COMMIT, "gated": False}).encode())
        if is_api and words[2] == "tree":
            return self._list(handler, files, int(parse_qs(url.query).get("cursor", ["0"])[0]))
        if name in self.gated and not is_known:
            return _end(
                handler, 401 if not handler.headers.get("authorization") else 403, {"x-error-code": "GatedRepo"}
            )
        path = "/".join(words[4:])
        if path not in files:
            return _end(handler, 404, {"x-error-code": "EntryNotFound"})
        store = f"http://127.0.0.1:{self._store[0].server_port}/{name}/{path}?X-Amz-Signature=secret"
        return _end(handler, 302, {"location": store, "x-repo-commit": COMMIT, "etag": '"x"'})

    def _list(self, handler: BaseHTTPRequestHandler, files: dict[str, bytes | Path], begin: int) -> None:
        entries: list[dict[str, object]] = [{"type": "directory", "path": "folder", "oid": "0", "size": 0}]
        for path, content in files.items():
            size = _size(content)
            large = (
                {"lfs": {"oid": self.digests.get(path) or _sha256(content), "size": size, "pointerSize": 134}}
                if size > 100
                else {}
            )
            entries.append({"type": "file", "path": path, "oid": "0" * 40, "size": size, **large})
        after = begin + PAGE
        link = f'<{self.goes_on_at or self.url}{urlsplit(handler.path).path}?recursive=true&cursor={after}>; rel="next"'
        body = json.dumps(entries[begin:after]).encode()
        _end(handler, 200, {"link": link} if after < len(entries) else {}, body)

    def _store_get(self, handler: BaseHTTPRequestHandler) -> None:
        self.store_saw.append({name.lower(): value for name, value in handler.headers.items()})
        org, repo, path = unquote(urlsplit(handler.path).path)[1:].split("/", 2)
        content = self.repositories[f"{org}/{repo}"][path]
        asked = handler.headers.get("range")
        first, _, last = (asked or "bytes=0-").removeprefix("bytes=").partition("-")
        size = _size(content)
        end = min(int(last) + 1 if last else size, size)
        if isinstance(content, Path):
            with content.open("rb") as file:
                file.seek(int(first))
                body = file.read(end - int(first))
        else:
            body = content[int(first) : end]
        span = {"content-range": f"bytes {first}-{end - 1}/{size}"} if asked else {}
        cut = self.cuts.pop(0) if self.cuts else len(body)
        self.sent += len(body[:cut])
        holds = self.holds_after is not None and len(body) > self.holds_after
        sent = self.holds_after if holds else cut
        _end(handler, 206 if asked else 200, {**span, "etag": '"x"'}, body, 0 if self.pause else sent)
        for begin in range(0, sent or 0, 2**20) if self.pause else ():
            handler.wfile.write(body[begin : min(begin + 2**20, sent or 0)])
            self._is_over.wait(self.pause)
        if holds:
            self._is_over.wait(60)


def _size(content: bytes | Path) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _sha256(content: bytes | Path) -> str:
    """Of a file that is larger than any that is downloaded, which may be sparse, none that is right."""
    if _size(content) > LARGEST:
        return "ab" * 32
    return hashlib.sha256(content if isinstance(content, bytes) else content.read_bytes()).hexdigest()


def _end(
    handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"", cut: int | None = None
) -> None:
    handler.send_response(status)
    for name, value in {**headers, "content-length": str(len(body))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body if cut is None else body[:cut])
