"""The body is bounded before it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from stoker.domain.errors import ClientError, ClientLeft
from stoker.request.accept.body import read_body

GONE = {"type": "http.disconnect"}


class Receive:
    """Gives these messages, then complains."""

    def __init__(self, *messages: Mapping[str, Any]) -> None:
        self.messages = list(messages)
        self.asked = 0

    async def __call__(self) -> Mapping[str, Any]:
        self.asked += 1
        return self.messages.pop(0)


def piece(body: bytes, more: bool = False) -> Mapping[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def read(receive: Receive, limit: int = 10, length: bytes | None = None) -> bytes:
    return asyncio.run(read_body(receive, {} if length is None else {b"content-length": length}, limit))


@pytest.mark.parametrize(
    "pieces",
    [[piece(b"0123456789")], [piece(b"01234", True), piece(b"56789")], [piece(b"0123456789", True), piece(b"")]],
)
def test_a_body_of_exactly_the_limit_is_read(pieces: list[Mapping[str, Any]]) -> None:
    assert read(Receive(*pieces)) == b"0123456789"


def test_an_empty_body_is_a_body() -> None:
    assert read(Receive(piece(b"")), length=b"0") == b""


def test_a_declared_length_above_the_limit_is_refused_before_a_byte_is_read() -> None:
    receive = Receive(piece(b"x" * 11))
    with pytest.raises(ClientError) as caught:
        read(receive, length=b"11")
    assert (caught.value.status, caught.value.code, receive.asked) == (413, "body_too_large", 0)


@pytest.mark.parametrize(
    "pieces", [[piece(b"x" * 11)], [piece(b"x" * 6, True), piece(b"x" * 5, True), piece(b"never")]]
)
def test_an_undeclared_one_is_refused_as_soon_as_it_is_too_large(pieces: list[Mapping[str, Any]]) -> None:
    receive = Receive(*pieces)
    with pytest.raises(ClientError) as caught:
        read(receive)
    assert caught.value.status == 413
    assert receive.messages in ([], [piece(b"never")])


@pytest.mark.parametrize("messages", [[GONE], [piece(b"x", True), GONE]])
def test_a_client_that_leaves_is_no_error_of_anybody(messages: list[Mapping[str, Any]]) -> None:
    with pytest.raises(ClientLeft):
        read(Receive(*messages))
