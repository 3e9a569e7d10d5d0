"""One response is read to its end or to a bound."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from stoker.http.response import ResponseReader


def read(*pieces: bytes, limit: int = 100, only_success: bool = False, ends: bool = True) -> ResponseReader:
    async def story() -> ResponseReader:
        stream = asyncio.StreamReader()
        for piece in pieces:
            stream.feed_data(piece)
        if ends:
            stream.feed_eof()
        response = ResponseReader()
        async with asyncio.timeout(5):
            await response.read(stream, limit, only_success=only_success)
        return response

    return asyncio.run(story())


def test_a_body_over_the_limit_is_cut_and_the_rest_not_awaited() -> None:
    response = read(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n" + b"x" * 20, limit=10, ends=False)
    assert (response.is_cut, response.body) == (True, b"x" * 10)
    assert not read(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + b"x" * 10, limit=10).is_cut


def test_the_body_of_an_error_is_read_unless_only_success_counts() -> None:
    error = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\n"
    assert read(error, b"full").body == b"full"
    assert read(error, only_success=True, ends=False).status == 503


def test_an_interim_response_is_not_the_answer() -> None:
    response = read(b"HTTP/1.1 103 Early Hints\r\nLocation: /x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    assert (response.status, response.location, response.body) == (200, "", b"ok")


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"])
def test_a_connection_that_ends_too_early_is_an_error(reply: bytes) -> None:
    with pytest.raises(ValueError, match="before the answer did"):
        read(reply)


def test_a_response_that_was_read_leaves_no_reference_cycle() -> None:
    gc.disable()
    try:
        response = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        seen = weakref.ref(response)
        del response
        assert seen() is None
    finally:
        gc.enable()
