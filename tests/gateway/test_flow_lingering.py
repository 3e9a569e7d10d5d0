"""A refusal that comes before the end of the body: the client can go on sending, and reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.gateway.flow_stage import Stage, story

from stoker.request.accept.connection import Lingering
from stoker_lab.testing.client import compose_request

BODY = 2_000_000
PIECE = b" " * 50_000
CHAT = "/v1/chat/completions"


def head(size: int) -> bytes:
    lines = (f"POST {CHAT} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {size}")
    return "\r\n".join((*lines, "", "")).encode()


async def pour(writer: asyncio.StreamWriter, pieces: int) -> None:
    """Send the body on. A reset is noticed here."""
    for _ in range(pieces):
        writer.write(PIECE)
        await writer.drain()
        await asyncio.sleep(0)


async def begun(stage: Stage, size: int = BODY) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
    writer.write(head(size) + PIECE)
    return reader, writer


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize("plain", [False, True])
def test_a_client_that_sends_its_body_to_the_end_reads_the_refusal_and_then_the_end(plain: bool) -> None:
    @story(plain=plain, body_limit=1_000_000)
    async def tell(stage: Stage) -> None:
        reader, writer = await begun(stage)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"\r\nconnection: close\r\n" in answer.lower()
        await pour(writer, BODY // len(PIECE) - 1)
        assert b"body_too_large" in await reader.read(), "and then the server's end"
        await closed(writer)
        await stage.until(lambda: not stage.state.connections, "the connection ends")

    tell()


def _too_long(lingering: Lingering) -> Callable[[Callable[..., object]], Callable[[], None]]:
    return story(lingering=lingering, body_limit=1_000_000)  # type: ignore[return-value]


@_too_long(Lingering(seconds=0.1))
async def test_who_goes_on_for_too_long_is_closed(stage: Stage) -> None:
    reader, writer = await begun(stage)
    await reader.read()
    await stage.until(lambda: not stage.state.connections, "the time is over")
    await closed(writer)


@_too_long(Lingering(size=100_000))
async def test_who_sends_too_much_is_closed(stage: Stage) -> None:
    reader, writer = await begun(stage)
    await reader.readuntil(b"\r\n\r\n")
    is_reset = False
    try:
        await pour(writer, 1000)
    except OSError:
        is_reset = True
    assert is_reset
    await closed(writer)
    await stage.until(lambda: not stage.state.connections, "the connection ends")


@_too_long(Lingering(seconds=60.0))
async def test_what_follows_a_refused_body_is_no_request(stage: Stage) -> None:
    reader, writer = await begun(stage, 1_500_000)
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b" " * (1_500_000 - len(PIECE)) + compose_request("GET", "/healthz"))
    await writer.drain()
    assert (await reader.read()).count(b"HTTP/1.1 ") == 0
    await closed(writer)


@_too_long(Lingering(seconds=60.0))
async def test_a_server_that_shuts_down_does_not_wait_for_the_rest(stage: Stage) -> None:
    reader, writer = await begun(stage)
    await reader.read()
    [connection] = stage.state.connections
    connection.shutdown()
    await stage.until(lambda: not stage.state.connections, "it is closed")
    await closed(writer)


@story()
async def test_a_whole_request_whose_client_wants_the_end_is_closed_at_once(stage: Stage) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.port)
    writer.write(compose_request("GET", "/healthz", headers=(("connection", "close"),)))
    assert b"HTTP/1.1 200" in await reader.read()
    await stage.until(lambda: not stage.state.connections, "it is closed")
    await closed(writer)
