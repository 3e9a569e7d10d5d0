"""Asks a serve to count tokens with its engine's own tokenizer. Nothing is estimated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.request.codec.content_coding import decoded
from stoker.request.codec.frames import read_usage
from stoker.request.relay.headers import request_head
from stoker.request.relay.pool import ConnectionPool, RequestBody

TIMEOUT = 30.0
MAX_REPLY = 4 * 2**20
_TOKENIZE = "/tokenize"
_PROMPT_FIELDS = ("model", "messages", "tools", "chat_template_kwargs")
_ABSENT = (404, 405)


class _ReplyCollector:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        self._status = 0
        self._coding = b""
        self._parts: list[bytes] = []
        self._size = 0

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._status = status
        self._coding = next((value.strip().lower() for name, value in headers if name == b"content-encoding"), b"")

    def on_data(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= MAX_REPLY:
            self._parts.append(data)

    def on_end(self) -> None:
        if self.done.done():
            return
        try:
            self.done.set_result((self._status, decoded(self._coding, b"".join(self._parts))))
        except UpstreamError as error:
            self.done.set_exception(error)

    def on_broken(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(UpstreamError(f"the serve broke off its reply: {reason}"))


async def post(pool: ConnectionPool, target: Target, path: str, body: bytes) -> tuple[int, bytes]:
    """POST JSON, get (status, body). Raises UpstreamError. On cancel the connection is closed."""
    return await fetch(pool, target, b"POST", path, body)


async def fetch(pool: ConnectionPool, target: Target, method: bytes, path: str, body: bytes = b"") -> tuple[int, bytes]:
    head = request_head(method, path, target, [(b"content-type", b"application/json")], len(body), plain=True)
    try:
        return await exchange(pool, target, head, body, TIMEOUT)
    except TimeoutError:
        raise UpstreamError(f"{path} took longer than {TIMEOUT:.0f} s") from None


async def exchange(
    pool: ConnectionPool, target: Target, head: bytes, body: RequestBody, timeout: float
) -> tuple[int, bytes]:
    """Send one request of Stoker's own. Returns (status, body). Raises UpstreamError, or TimeoutError `timeout` seconds
    after it was sent. On cancel the connection is closed.
    """
    collect = _ReplyCollector(asyncio.get_running_loop())
    connection = await pool.open(target)
    connection.send(collect, head, body)
    try:
        async with asyncio.timeout(timeout):
            return await collect.done
    finally:
        if not collect.done.done() or collect.done.cancelled():
            connection.abort()


Read = Callable[[Callable[[bytes], bytes | None], bytes], Awaitable[bytes | None]]
"""Runs work on a body: on a large one where it does not block the event loop."""


async def _read_here(read: Callable[[bytes], bytes | None], body: bytes) -> bytes | None:
    return read(body)


async def count(
    pool: ConnectionPool, target: Target, dialect: Dialect, body: bytes, read: Read = _read_here
) -> int | None:
    """Prompt tokens of this request, by the engine's own template and tokenizer; None: it cannot count.

    1. the dialect's own path  2. where there is none, for chat without images: /tokenize (vLLM, SGLang)
    """
    path = dialect.spec.counter
    if not path:
        return None
    try:
        status, reply = await post(pool, target, path, body)
        if status == 200:  # 1
            return _number(reply, "input_tokens")
        prompt = await read(_prompt, body) if status in _ABSENT and dialect is Dialect.CHAT else None
        if prompt is None:
            return None
        status, reply = await post(pool, target, _TOKENIZE, prompt)  # 2
        return _number(reply, "count") if status == 200 else None
    except UpstreamError:
        return None


async def count_by_asking(pool: ConnectionPool, target: Target, path: str, body: bytes) -> int | None:
    """Prompt tokens by the usage of an answer: `body` asks for one token, not streamed. None: no usage is reported."""
    status, reply = await post(pool, target, path, body)
    return read_usage(reply).input if status == 200 else None


def _prompt(body: bytes) -> bytes | None:
    """The fields that make a chat request's prompt. None: it has more than text, which the tokenizer does not count."""
    try:
        chat = msgspec.json.decode(body)
        contents = [message.get("content") for message in chat["messages"]]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        if any(part.get("type") != "text" for part in parts):
            return None
        return msgspec.json.encode({name: chat[name] for name in _PROMPT_FIELDS if name in chat})
    except (msgspec.DecodeError, RecursionError, AttributeError, LookupError, TypeError):
        return None


def _number(reply: bytes, name: str) -> int | None:
    try:
        found = msgspec.json.decode(reply).get(name)
    except (msgspec.DecodeError, RecursionError, AttributeError):
        return None
    return found if isinstance(found, int) else None
