"""The body is bounded before it is read."""

from __future__ import annotations

import asyncio

import pytest

from stoker.domain.errors import ClientError, ClientLeft
from stoker.request.accept.connection import read_body


class Coming:
    """A wire on which one piece of the body comes each time that more is asked for; None: the client leaves."""

    def __init__(self, *pieces: bytes | None, length: int | None = None, here: int = 0) -> None:
        self.headers = {} if length is None else {b"content-length": b"%d" % length}
        self.asked = self.received = 0
        self.is_lost = False
        self.body_error = None
        self.left = list(pieces)
        self.come: list[bytes] = []
        for _ in range(here):
            self.next()

    @property
    def is_whole(self) -> bool:
        return not self.left

    def next(self) -> None:
        piece = self.left.pop(0)
        if piece is None:
            self.is_lost = True
        else:
            self.come.append(piece)
            self.received += len(piece)

    async def wait_for_more(self) -> None:
        self.asked += 1
        self.next()

    def expect(self, length: int) -> None: ...

    def take_body(self) -> bytes:
        return b"".join(self.come)


def read(wire: Coming, limit: int = 10) -> bytes:
    return asyncio.run(read_body(wire, limit))  # type: ignore[arg-type]


@pytest.mark.parametrize("pieces", [[b"0123456789"], [b"01234", b"56789"], [b"0123456789", b""]])
def test_a_body_of_exactly_the_limit_is_read(pieces: list[bytes]) -> None:
    assert read(Coming(*pieces)) == b"0123456789"


def test_an_empty_body_is_a_body() -> None:
    assert read(Coming(length=0)) == b""


def test_a_declared_length_above_the_limit_is_refused_before_a_byte_is_read() -> None:
    wire = Coming(b"x" * 11, length=11)
    with pytest.raises(ClientError) as caught:
        read(wire)
    assert (caught.value.status, caught.value.code, wire.asked) == (413, "body_too_large", 0)


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 6, b"x" * 5, b"never"]])
def test_an_undeclared_one_is_refused_as_soon_as_it_is_too_large(pieces: list[bytes]) -> None:
    wire = Coming(*pieces)
    with pytest.raises(ClientError) as caught:
        read(wire)
    assert caught.value.status == 413
    assert wire.left in ([], [b"never"])


@pytest.mark.parametrize("pieces", [[None], [b"x", None]])
def test_a_client_that_leaves_is_no_error_of_anybody(pieces: list[bytes | None]) -> None:
    with pytest.raises(ClientLeft):
        read(Coming(*pieces))
