"""The load generator sees every way in which a reply can be wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import pytest
from bench import exchange
from bench.connection import Connection, Outcome, open_with
from bench.exchange import Ask
from bench.upstream import Connection as Upstream

STREAM = Ask(0xBEEF, stream=True, events=5, gap=1000)
PLAIN = Ask(7, stream=False)


@pytest.mark.parametrize("size", [2048, 200 * 1024])
def test_a_request_has_the_size_it_was_asked_to_have_and_says_what_is_wanted(size: int) -> None:
    body = exchange.request("m", STREAM, size).fill(STREAM.key())
    assert len(body) == size
    assert exchange.read(body) == STREAM


def test_a_body_without_a_marker_asks_for_nothing() -> None:
    assert exchange.read(b'{"model":"m"}') is None


def test_usage_comes_only_where_it_was_asked_for() -> None:
    assert exchange.wants_usage(b'{"stream_options":{"include_usage": true}}')
    assert not exchange.wants_usage(b'{"stream_options":{"include_usage":false}}')
    assert b'"usage"' in exchange.reply(STREAM, usage=True).fill(STREAM.key())
    assert b'"usage"' not in exchange.reply(STREAM).fill(STREAM.key())


def test_the_plain_reply_is_about_600_bytes() -> None:
    assert 550 <= len(exchange.reply(PLAIN).fill(PLAIN.key())) <= 650


def test_a_whole_reply_is_in_order() -> None:
    assert exchange.misordered(exchange.reply(STREAM).fill(STREAM.key()), STREAM) is None
    assert exchange.misordered(exchange.reply(PLAIN).fill(PLAIN.key()), PLAIN) is None


def _events(*indices: int, key: bytes = STREAM.key(), done: bool = True) -> bytes:
    text = b"".join(exchange.event(index) for index in indices) + (exchange.ending(5, False) if done else b"")
    return exchange.Template(text).fill(key)


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        (_events(0, 1, 2, 4), "4 events instead of 5"),
        (_events(0, 1, 2, 2, 3, 4), "6 events instead of 5"),
        (_events(0, 2, 1, 3, 4), "events out of order"),
        (_events(0, 1, 2, 3, 4, key=b"0000dead"), "bytes of another exchange"),
        (_events(0, 1, 2, 3, 4, done=False), "no [DONE]"),
    ],
    ids=["lost", "doubled", "reordered", "mixed-up", "unfinished"],
)
def test_a_rewritten_stream_that_is_not_whole_is_seen(body: bytes, wrong: str) -> None:
    assert exchange.misordered(body, STREAM) == wrong


def _run(
    server: Callable[[], asyncio.Protocol],
    ask: Ask,
    exact: bool = True,
    path: str = exchange.CHAT,
    headers: tuple[tuple[str, str], ...] = (),
) -> Outcome:
    async def go() -> Outcome:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(server, "127.0.0.1", 0)
        async with listener:
            port = listener.sockets[0].getsockname()[1]
            _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
            try:
                plan = open_with("127.0.0.1", port, "key", "m", ask, 2048, exact, path, headers)
                await connection.exchange(plan, ask)  # keep-alive: the second one counts
                return await connection.exchange(plan, ask)
            finally:
                connection.close()
                await asyncio.sleep(0)  # the transport closes in the loop's next round

    return asyncio.run(asyncio.wait_for(go(), 5))


@pytest.mark.parametrize("ask", [PLAIN, STREAM], ids=["plain", "streamed"])
@pytest.mark.parametrize("exact", [True, False], ids=["bytes", "counters"])
def test_the_upstream_gives_what_was_asked_for(ask: Ask, exact: bool) -> None:
    outcome = _run(Upstream, ask, exact)
    assert outcome.failure is None
    assert outcome.first is not None
    assert outcome.first <= outcome.total
    if ask.stream:
        assert outcome.total >= 0.004  # five events and an ending, a millisecond apart


class _Recorded(Upstream):
    """Remembers where it was asked, and with what."""

    asked: ClassVar[list[tuple[bytes, bytes]]] = []

    def data_received(self, data: bytes) -> None:
        head = data.partition(b"\r\n\r\n")[0]
        self.asked.append((head.split()[1], head.lower()))
        super().data_received(data)


def test_a_gateway_with_a_path_of_its_own_is_asked_there_with_the_headers_it_needs() -> None:
    _Recorded.asked.clear()
    outcome = _run(_Recorded, PLAIN, path="/own/chat", headers=(("x-where", "here"),))
    assert outcome.failure is None
    assert [path for path, _ in _Recorded.asked] == [b"/own/chat"] * 2
    assert all(b"\r\nx-where: here\r\n" in head for _, head in _Recorded.asked)


class _OtherBytes(Upstream):
    """Answers a stream of another number: its own, valid, but not what was asked for."""

    def stream_reply(self, ask: Ask, usage: bool) -> None:
        super().stream_reply(ask._replace(number=ask.number + 1), usage)


class _OneLess(Upstream):
    """Loses an event."""

    def stream_reply(self, ask: Ask, usage: bool) -> None:
        super().stream_reply(ask._replace(events=ask.events - 1), usage)


class _Faulty(Upstream):
    """Keeps its transport, to misuse it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport


class _Hangup(_Faulty):
    """Closes after the first event."""

    def stream_reply(self, ask: Ask, usage: bool) -> None:
        super().stream_reply(ask, usage)
        self.transport.close()


class _Unavailable(_Faulty):
    def stream_reply(self, ask: Ask, usage: bool) -> None:
        self.transport.write(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("server", "failure"),
    [
        (_OtherBytes, "other bytes at"),
        (_OneLess, "other bytes at"),
        (_Unavailable, "status 503"),
    ],
    ids=["mixed-up", "lost", "refused"],
)
def test_what_is_not_the_reply_is_a_failure(server: Callable[[], asyncio.Protocol], failure: str) -> None:
    outcome = _run(server, STREAM)
    assert outcome.failure is not None
    assert outcome.failure.startswith(failure)


def test_a_hangup_is_an_outcome_not_an_exception() -> None:
    async def go() -> Outcome:
        loop = asyncio.get_running_loop()
        async with await loop.create_server(_Hangup, "127.0.0.1", 0) as listener:
            port = listener.sockets[0].getsockname()[1]
            _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
            return await connection.exchange(open_with("127.0.0.1", port, None, "m", STREAM, 2048, True), STREAM)

    assert asyncio.run(asyncio.wait_for(go(), 5)).failure == "connection closed early"
