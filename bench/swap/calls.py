"""One request, timed to its first token."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Timed(NamedTuple):
    """Seconds from the request's first byte."""

    first: float
    total: float


class Turn(NamedTuple):
    """One turn of a conversation."""

    first: float
    """Seconds to the first token."""
    prompt: int
    read: int
    """Tokens of the prompt that the engine worked through: what it had in its cache is not in it."""


class Failed(RuntimeError):
    """A call that was answered with an error, or not as agreed."""


def chat(port: int, model: str, key: str | None, tokens: int = 8, stream: bool = True, timeout: float = 120.0) -> Timed:
    """A short chat request to loopback. The connection is made before the clock starts.

    Raises Failed (status, and the error's first 300 characters), OSError and http.client's errors.
    """
    body = {
        "model": model,
        "stream": stream,
        "max_tokens": tokens,
        "temperature": 0,
        "messages": [{"role": "user", "content": "Say hello."}],
    }
    first, total, _ = _timed(port, key, body, timeout)
    return Timed(total if first is None else first, total)


def turn(port: int, model: str, key: str | None, messages: Sequence[Mapping[str, str]]) -> Turn:
    """As `chat`, with a conversation of your own. Raises Failed also if the usage is missing."""
    body = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 8,
        "temperature": 0,
        "messages": list(messages),
    }
    first, _, rest = _timed(port, key, body, timeout=600.0)
    for line in rest.splitlines():
        if line.startswith(b"data: {") and (usage := json.loads(line[6:]).get("usage")):
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            return Turn(first or 0.0, usage["prompt_tokens"], usage["prompt_tokens"] - cached)
    raise Failed(f"{model}: the stream ended without usage")


def _timed(port: int, key: str | None, body: Mapping[str, Any], timeout: float) -> tuple[float | None, float, bytes]:
    """Seconds to the first token (None: not streamed) and in all, and what came after it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    with contextlib.closing(connection):
        connection.connect()
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        reply = connection.getresponse()
        if reply.status != 200:
            text = reply.read(300).decode(errors="replace")
            raise Failed(f"{body['model']}: status {reply.status} after {time.perf_counter() - began:.3f} s: {text}")
        first = _first_token(reply, began) if body["stream"] else None
        rest = reply.read()
        return first, time.perf_counter() - began, rest


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
