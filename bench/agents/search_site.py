"""A search engine with the interface of SearXNG, on loopback, that answers by a script."""

from __future__ import annotations

import http.server
import json
import select
import threading
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

BROKEN, HANGING = "broken", "hanging"
"""What a query says to get an error, or no answer until the other side goes."""
BLOCKED = "blocked.example"


def results(query: str) -> list[dict[str, str]]:
    """A page of a host that clients block, and one with a fact, which has the query's last word."""
    word = query.split()[-1] if query.split() else "nothing"
    return [
        {"url": f"https://{BLOCKED}/{word}", "title": f"Blocked {word}", "content": f"blocked-{word}"},
        {"url": f"https://pages.example/{word}", "title": f"Page {word}", "content": excerpt(word)},
    ]


def excerpt(word: str) -> str:
    """What the search found of a word."""
    return f"excerpt-{word}"


class SearchSite:
    """Use as a context manager: leaving it ends it."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.hangs = threading.Event()
        """A query gets no answer."""
        self.was_left = threading.Event()
        """The other side of that query went."""
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query).get("q", [""])[0]
                site.queries.append(query)
                if HANGING in query:
                    site.hangs.set()
                    select.select([self.connection], [], [], 120)
                    site.was_left.set()
                    return
                self._reply(500 if BROKEN in query else 200, {"results": results(query.partition(" -site:")[0])})

            def _reply(self, status: int, document: Any) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def configuration(self) -> str:
        """Tables that have Stoker ask it."""
        port = self._server.server_address[1]
        return f'[tools.web]\nkind = "searxng"\nbase_url = "http://127.0.0.1:{port}"\n'

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
