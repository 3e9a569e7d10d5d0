"""The raw client sends exactly the bytes given, and does not forgive what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from stoker_lab.testing.client import FramingError, RawClient, RawHead, SseEvent, compose_request, read_events


@asynccontextmanager
async def peer(reply: bytes, *, close: bool = True) -> AsyncIterator[tuple[int, asyncio.Future[bytes]]]:
    """Sends `reply` at once; the future holds all that it read until the client's end."""
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        if close:
            writer.write_eof()
        try:
            heard.set_result(await reader.read())
        except ConnectionError as error:
            heard.set_exception(error)
        writer.close()

    server = await asyncio.start_server(on_client, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heard


async def test_bytes_go_out_as_they_are() -> None:
    wrong = b"POST / HTTP/1.1\r\ncontent-length: 5\r\nContent-Length: +5\r\n\r\n\x00"
    async with peer(b"") as (port, heard), RawClient(port) as client:
        await client.send(wrong)
        client.half_close()
        assert await heard == wrong


async def test_a_half_closed_client_still_reads() -> None:
    async with peer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi") as (port, heard), RawClient(port) as client:
        client.half_close()
        assert await heard == b""
        assert (await client.reply()).body == b"hi"


async def test_an_abrupt_client_is_a_reset_to_its_peer() -> None:
    async with peer(b"", close=False) as (port, heard), RawClient(port) as client:
        await client.send(b"x")
        client.abort()
        with pytest.raises(ConnectionResetError):
            await heard


async def test_compose_is_well_formed() -> None:
    assert compose_request("POST", "/a", {"b": 1}, [("x-c", "d")]) == (
        b"POST /a HTTP/1.1\r\nhost: 127.0.0.1\r\nx-c: d\r\ncontent-type: application/json\r\ncontent-length: 8\r\n\r\n"
        b'{"b": 1}'
    )
    assert compose_request("GET", "/") == b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b"content-length: 3\r\n\r\nabc", b"abc"),
        (b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n", b"abc"),
        (b"\r\nabc", b"abc"),
    ],
)
async def test_each_frame_of_a_body_is_read(raw: bytes, body: bytes) -> None:
    async with peer(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + raw) as (port, _), RawClient(port) as client:
        reply = await client.reply()
    assert (reply.status, reply.body) == (200, body)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc", "1 bytes before its content-length"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: +3\r\n\r\nabc", r"content-length: '\+3'"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc", "2 headers content-length"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc", "both transfer-encoding"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nabc", "transfer-encoding: gzip"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabcd\r\n", "does not end in CRLF"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0x3\r\nabc\r\n", "not a chunk's size"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", "ended within a chunk's size"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\na", "ended within a chunk: 1 bytes"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: y\r\n\r\n", "unexpected trailer"),
        (b"HTTP/1.1 200 OK\r\nx : y\r\n\r\n", "not a header"),
        (b"SSH-2.0\r\n\r\n", "not a status line"),
        (b"HTTP/1.1 200 OK\r\nx: y\r\n", "ended within a head"),
    ],
)
async def test_wrong_frames_are_errors(raw: bytes, words: str) -> None:
    async with peer(raw) as (port, _), RawClient(port) as client:
        with pytest.raises(FramingError, match=words):
            await client.reply()


async def test_waiting_ends_and_says_for_what() -> None:
    async with peer(b"HTTP/1.1 200 OK\r\n", close=False) as (port, _), RawClient(port, timeout=0.01) as client:
        with pytest.raises(TimeoutError, match=r"waited 0\.01 s for a head"):
            await client.reply()


async def test_nothing_listens() -> None:
    async with peer(b"") as (port, _):
        pass
    with pytest.raises(OSError):
        await RawClient(port).connect()


def cut(data: bytes, size: int) -> Callable[[], AsyncIterator[bytes]]:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(data), size):
            yield data[at : at + size]

    return pieces


async def read_all(pieces: Callable[[], AsyncIterator[bytes]]) -> list[SseEvent]:
    return [event async for event in read_events(pieces())]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_events_are_the_same_however_they_are_cut(size: int) -> None:
    stream = b'event: a\ndata: {"x":\ndata: "\xc3\xa9"}\n\n: ping\n\nid: 4\ndata: [DONE]\n\n'
    found = await read_all(cut(stream, size))
    assert [(event.name, event.data, event.comment) for event in found] == [
        ("a", '{"x":\n"\u00e9"}', ""), ("", "", "ping"), ("", "[DONE]", ""),
    ]  # fmt: skip
    assert found[0].json() == {"x": "\u00e9"}
    assert found[0].at <= found[1].at <= found[2].at


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (b"data: a\n\ndata: b\n", "ended within an event"),
        (b"data: [DONE]\n\ndata: b\n\n", r"after \[DONE\]"),
        (b"event: a\nevent: b\ndata: c\n\n", "2 names"),
        (b"event: a\n\n", "0 data lines"),
        (b"\n\n", "not a field"),
        (b"dat: a\n\n", "not a field"),
        (b'{"error": 1}\n\n', "not a field"),
        (b"data: \xff\n\n", "not UTF-8"),
    ],
)
async def test_wrong_events_are_errors(stream: bytes, words: str) -> None:
    with pytest.raises(FramingError, match=words):
        await read_all(cut(stream, 1000))


def test_a_header_that_comes_twice_has_no_one_value() -> None:
    head = RawHead(200, (("a", "1"), ("b", "2"), ("b", "3")))
    assert head.header("a") == "1"
    assert head.header("c") is None
    with pytest.raises(FramingError, match="2 headers b"):
        head.header("b")
