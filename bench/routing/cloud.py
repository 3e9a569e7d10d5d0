"""Somebody else's model: answers chat completions over HTTP, by the book. Not streamed; nothing else is asked of it.

Each question is known by its turns and tools. What is not in the book is answered with 400.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

from bench.routing import answers
from stoker.domain.answer import Answer
from stoker.domain.prompt import Text, ToolCall
from stoker_lab.suites.fixture import Fixture
from stoker_lab.suites.grading import check_in_sandbox

MODEL = "vendor/large"
KEY = "sk-bench-cloud"
BYTES_PER_TOKEN = 4
"""Of the usage that it reports: there is no tokenizer behind it."""


class Unwritten(RuntimeError):
    """An answer that its own fixture's checker does not take for what it is meant to be."""


def question(request: dict[str, Any]) -> str:
    asked = [request.get("messages"), request.get("tools")]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def book(fixtures: Iterable[Fixture], mistaken: Iterable[str]) -> dict[str, Answer]:
    """By question. Raises Unwritten: every answer is graded first, right ones have to pass and wrong ones to fail."""
    off = frozenset(mistaken)
    found: dict[str, Answer] = {}
    for one in fixtures:
        answer = answers.wrong(one) if one.id in off else answers.right(one)
        if check_in_sandbox(one.check, answer).passed == (one.id in off):
            raise Unwritten(f"{one.id}: {answer.blocks}")
        found[question(one.request)] = answer
    return found


def completion(answer: Answer, asked: int) -> dict[str, Any]:
    """As a chat completion. `asked`: bytes of the request."""
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.arguments}}
        for block in answer.blocks
        if isinstance(block, ToolCall)
    ]
    text = "".join(block.text for block in answer.blocks if isinstance(block, Text))
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    read, wrote = asked // BYTES_PER_TOKEN, (len(text) + sum(map(len, map(str, calls)))) // BYTES_PER_TOKEN + 1
    return {
        "id": "chatcmpl-cloud", "object": "chat.completion", "created": 1_700_000_000, "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote},
    }  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, known: dict[str, Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.known = known


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        asked = {"messages": request.get("messages"), "tools": request.get("tools")}
        answer = cast(_Server, self.server).known.get(question(request))
        if answer is None or request.get("stream"):
            self._answer(400, {"error": {"message": "not in the book", "type": "invalid_request_error"}})
        else:
            self._answer(200, completion(answer, len(json.dumps(asked))))

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is the bench's to say."""


class Cloud:
    """Serves on a free loopback port while it is entered."""

    def __init__(self, known: dict[str, Answer]) -> None:
        self._server = _Server(known)
        self._thread = threading.Thread(target=self._server.serve_forever, name="cloud", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
