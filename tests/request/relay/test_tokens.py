"""A serve counts tokens, or says nothing; it never holds a request up for long, nor a connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.lease import Target
from stoker.request.relay import tokens
from stoker.request.relay.pool import ConnectionPool
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer


def answered(
    said: bytes, tell: Callable[[ConnectionPool, Target], Coroutine[Any, Any, None]], closes: bool = False
) -> list[bytes]:
    """Runs `tell` against a serve that answers each request so; returns what it was sent. No connection is left."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(said)
        if not closes:
            await reader.read()
        writer.close()

    async def run() -> None:
        async with asyncio.timeout(5):
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            pool = ConnectionPool()
            await tell(pool, Target("127.0.0.1", server.sockets[0].getsockname()[1], "", "m", key="k"))
            pool.close()
            server.close()
            await asyncio.sleep(0.01)

    asyncio.run(run())
    return heads


def http(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


PATHS = {
    Dialect.CHAT: b"/v1/chat/completions/input_tokens",
    Dialect.MESSAGES: b"/v1/messages/count_tokens",
    Dialect.RESPONSES: b"/v1/responses/input_tokens",
}


@pytest.mark.parametrize("dialect", PATHS)
def test_each_dialect_is_counted_at_its_own_path(dialect: Dialect) -> None:
    async def tell(pool: ConnectionPool, target: Target) -> None:
        assert await tokens.count(pool, target, dialect, b"{}") == 42

    (head,) = answered(http(b'{"input_tokens":42}'), tell)
    assert head.startswith(b"POST %b HTTP/1.1\r\n" % PATHS[dialect])
    assert b"authorization: Bearer k\r\n" in head


@pytest.mark.parametrize(
    ("said", "closes"),
    [(http(b"{}", 404), False), (http(b"{"), False), (http(b"[]"), False), (http(b'{"input_tokens":"4"}'), False),
     (http(b"\xff"), False), (b"", True), (http(b"[" * 100_000), False)],
)  # fmt: skip
def test_a_serve_that_cannot_tell_is_unknown(said: bytes, closes: bool) -> None:
    async def tell(pool: ConnectionPool, target: Target) -> None:
        assert await tokens.count(pool, target, Dialect.CHAT, b"{}") is None

    answered(said, tell, closes)


def test_other_dialects_are_not_asked() -> None:
    async def tell(pool: ConnectionPool, target: Target) -> None:
        assert await tokens.count(pool, target, Dialect.RERANK, b"{}") is None

    assert answered(b"", tell) == []


def test_a_silent_serve_is_given_up_and_its_connection_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TIMEOUT", 0.01)

    async def tell(pool: ConnectionPool, target: Target) -> None:
        with pytest.raises(UpstreamError, match=r"took longer"):
            await tokens.post(pool, target, "/x", b"")
        assert await tokens.count(pool, target, Dialect.CHAT, b"{}") is None

    answered(b"", tell)


def test_an_endless_answer_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_REPLY", 10)

    async def tell(pool: ConnectionPool, target: Target) -> None:
        status, body = await tokens.post(pool, target, "/x", b"")
        assert (status, len(body) <= 10) == (200, True)

    answered(http(b"x" * 100_000), tell)


def served(engine: str, tell: Callable[[ConnectionPool, Target], Coroutine[Any, Any, None]]) -> list[str]:
    """As `answered`, against an imitation of the engine; the paths that were asked for."""

    async def run() -> list[str]:
        async with ScriptedServer(Script(engine=engine, id="m")) as server:
            pool = ConnectionPool()
            await tell(pool, Target(server.host, server.port, "", "m"))
            pool.close()
            return [request.path for request in server.requests]

    return asyncio.run(run())


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_engine_without_the_path_counts_chats_with_its_tokenizer(engine: str) -> None:
    chat = {"model": "m", "messages": [{"role": "user", "content": "a b c"}], "stream": True, "max_tokens": 5}

    async def tell(pool: ConnectionPool, target: Target) -> None:
        assert await tokens.count(pool, target, Dialect.CHAT, json.dumps(chat).encode()) == 3

    assert served(engine, tell)[-1] == "/tokenize"


@pytest.mark.parametrize(
    "body",
    [b'{"messages":[{"content":[{"type":"image_url"}]}]}', b'{"messages":[3]}', b'{"messages":3}', b"[]", b"{"],
)
def test_what_a_tokenizer_cannot_count_is_not_guessed(body: bytes) -> None:
    async def tell(pool: ConnectionPool, target: Target) -> None:
        assert await tokens.count(pool, target, Dialect.CHAT, body) is None

    assert "/tokenize" not in served("vllm", tell)


def test_a_chat_for_the_tokenizer_is_read_by_whoever_reads_large_bodies() -> None:
    read: list[bytes] = []
    chat = json.dumps({"messages": [{"role": "user", "content": "a b"}]}).encode()

    async def reading(work: Callable[[bytes], bytes | None], body: bytes) -> bytes | None:
        read.append(body)
        return work(body)

    async def tell(pool: ConnectionPool, target: Target) -> None:
        await tokens.count(pool, target, Dialect.CHAT, chat, reading)

    served("vllm", tell)
    assert read == [chat]
