"""One request, timed to its first token."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from typing import NamedTuple


class Timed(NamedTuple):
    """Seconds from the request's first byte."""

    first: float
    total: float


class Failed(RuntimeError):
    """A call that was answered with an error, or not as agreed."""


def chat(port: int, model: str, key: str | None, tokens: int = 8, stream: bool = True, timeout: float = 120.0) -> Timed:
    """A short chat request to loopback. The connection is made before the clock starts.

    Raises Failed (status, and the error's first 300 characters), OSError and http.client's errors.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection):
        connection.connect()
        body = {
            "model": model,
            "stream": stream,
            "max_tokens": tokens,
            "temperature": 0,
            "messages": [{"role": "user", "content": "Say hello."}],
        }
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        reply = connection.getresponse()
        if reply.status != 200:
            text = reply.read(300).decode(errors="replace")
            raise Failed(f"{model}: status {reply.status} after {time.perf_counter() - began:.3f} s: {text}")
        first = _first_token(reply, began) if stream else None
        reply.read()
        total = time.perf_counter() - began
        return Timed(total if first is None else first, total)


def _first_token(reply: http.client.HTTPResponse, began: float) -> float:
    """Reads to the first event that says something: text, or an end without any (random weights may have none)."""
    for line in reply:
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise Failed(
                f"error event after {time.perf_counter() - began:.3f} s: {line[:300].decode(errors='replace')}"
            )
        for choice in event.get("choices", ()):
            delta = choice.get("delta", {})
            if delta.get("content") or delta.get("reasoning_content") or choice.get("finish_reason"):
                return time.perf_counter() - began
    raise Failed("the stream ended without a token")


def get(port: int, path: str, key: str | None = None, timeout: float = 10.0) -> tuple[int, bytes]:
    """GET on loopback: status and body. Raises OSError and http.client's errors."""
    return _call(port, "GET", path, None, key, timeout)


def post(port: int, path: str, body: object, key: str | None = None, timeout: float = 120.0) -> tuple[int, bytes]:
    return _call(port, "POST", path, json.dumps(body), key, timeout)


def _call(port: int, method: str, path: str, body: str | None, key: str | None, timeout: float) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection):
        headers = ({"content-type": "application/json"} if body else {}) | (
            {"authorization": f"Bearer {key}"} if key else {}
        )
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
