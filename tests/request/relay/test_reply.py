"""The client's side: nothing is promised until something is there to keep the promise with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.request.codec.own_replies import SSE_HEADERS
from stoker.request.relay.reply import Reply, ReplyExchange

GZIP = [*SSE_HEADERS, (b"content-encoding", b"GZIP")]
JSON = [(b"content-type", b"application/json")]


class Paper:
    """A wire that writes down what is sent."""

    def __init__(self) -> None:
        self.is_lost = False
        self.is_paused = False
        self.on_lost: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None
        self.sent: list[object] = []

    def start(self, status: int, headers: Iterable[tuple[bytes, bytes]], length: int | None = None) -> None:
        self.sent.append(status)
        self.headers = dict(headers)

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def finish(self, last: bytes = b"") -> None:
        self.sent.append(("finish", last[:12]))

    def reply(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        self.headers = dict(headers)
        self.sent.append(("reply", status))

    def break_off(self) -> None:
        self.sent.append("break off")

    def close_after(self) -> None:
        self.sent.append("close after")


def reply(dialect: Dialect | None = Dialect.CHAT) -> tuple[Reply, Paper, asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    paper = Paper()
    wire: ReplyExchange = paper
    made = Reply(wire, dialect, "req_1", loop, lambda: 7.0)
    made.set_header(b"x-stoker-serve", b"a")
    return made, paper, loop


ERROR = UpstreamError("it broke")


def test_before_the_commit_a_failure_is_a_real_status() -> None:
    made, paper, loop = reply()
    made.fail(ERROR)
    assert paper.sent == [("reply", 502)]
    assert (paper.headers[b"x-stoker-serve"], paper.headers[b"x-request-id"]) == (b"a", b"req_1")
    loop.close()


def test_a_failure_with_a_body_left_unread_is_the_connections_last_reply() -> None:
    made, paper, loop = reply()
    made.fail(ERROR, close=True)
    assert paper.sent == ["close after", ("reply", 502)]
    loop.close()


def test_after_the_commit_a_failure_is_one_error_event() -> None:
    made, paper, loop = reply()
    made.commit(200, list(SSE_HEADERS))
    made.fail(ERROR)
    made.fail(ERROR)
    assert paper.sent == [200, "close after", ("finish", b'data: {"erro')]
    assert (made.status, made.is_finished) == (200, True)
    loop.close()


@pytest.mark.parametrize(
    ("headers", "dialect"), [(GZIP, Dialect.CHAT), (JSON, Dialect.CHAT), (SSE_HEADERS, None), ([], None)]
)
def test_where_there_is_no_room_for_an_event_a_failure_is_no_proper_end(
    headers: list[tuple[bytes, bytes]], dialect: Dialect | None
) -> None:
    made, paper, loop = reply(dialect)
    made.commit(200, headers)
    made.ping()
    made.fail(ERROR)
    assert paper.sent == [200, "break off"]
    loop.close()


def test_what_comes_after_the_end_does_nothing() -> None:
    made, paper, loop = reply()
    made.send_whole(200, JSON, b"{}")
    made.send_whole(200, JSON, b"{}")
    made.fail(ERROR)
    made.finish()
    made.break_off()
    assert paper.sent == [("reply", 200)]
    loop.close()


def test_an_abandoned_reply_writes_nothing() -> None:
    made, paper, loop = reply()
    made.abandon()
    made.fail(ERROR)
    assert paper.sent == []
    loop.close()


def test_silence_is_committed_and_pinged_until_the_serve_speaks() -> None:
    made, paper, loop = reply()

    async def tell() -> None:
        made.expect_stream(0.01, 0.01)
        while len(paper.sent) < 4:
            await asyncio.sleep(0.005)
        assert made.first_byte_at is None
        made.begin()
        assert made.first_byte_at == 7.0
        had = len(paper.sent)
        await asyncio.sleep(0.03)
        assert paper.sent == [200, *[b": ping\n\n"] * (had - 1)]

    loop.run_until_complete(tell())
    loop.close()


@pytest.mark.parametrize("ends", ["whole", "finish", "fail", "abandon", "break_off", "never", "no_keep_alive"])
def test_no_timer_is_left_behind(ends: str) -> None:
    made, paper, loop = reply()

    async def tell() -> None:
        made.expect_stream(0.0 if ends == "never" else 0.01, 0.0 if ends == "no_keep_alive" else 0.01)
        match ends:
            case "whole":
                made.send_whole(200, JSON, b"")
            case "finish":
                made.finish()
            case "fail":
                made.fail(ERROR)
            case "abandon":
                made.abandon()
            case "break_off":
                made.break_off()
        await asyncio.sleep(0.03)

    loop.run_until_complete(tell())
    expected = {"never": [], "abandon": [], "no_keep_alive": [200, b": ping\n\n"], "break_off": ["break off"],
                "whole": [("reply", 200)], "finish": [("finish", b"")], "fail": [("reply", 502)]}  # fmt: skip
    assert paper.sent == expected[ends]
    loop.close()


def test_a_commit_that_comes_too_late_changes_nothing() -> None:
    made, paper, loop = reply()
    made.expect_stream(0.001, 0.0)
    made.is_finished = True
    loop.run_until_complete(asyncio.sleep(0.01))
    assert paper.sent == []
    loop.close()
