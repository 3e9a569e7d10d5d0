"""Sockets that travel between processes."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from stoker.gateway.socket_channel import MAX_SOCKETS, MessageKind, close_all, receive, send

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Pair]:
    left, right = socket.socketpair()
    right.settimeout(5)
    with left, right:
        yield left, right


def test_messages_arrive_one_by_one_with_their_own_sockets(ends: Pair) -> None:
    left, right = ends
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(left, MessageKind.UNDER_WAY, 3)
        send(left, MessageKind.CONNECTION, 0, [theirs.fileno()])
        send(left, MessageKind.UNDER_WAY, 2)
        found = [receive(right) for _ in range(3)]
        assert [(one.kind, one.number, len(one.sockets)) for one in found if one is not None] == [
            (MessageKind.UNDER_WAY, 3, 0),
            (MessageKind.CONNECTION, 0, 1),
            (MessageKind.UNDER_WAY, 2, 0),
        ]
        [arrived] = found[1].sockets if found[1] is not None else []
        theirs.close()
        arrived.sendall(b"still open")
        assert ours.recv(20) == b"still open"
        assert not arrived.get_inheritable()
        close_all([arrived])


def test_as_many_sockets_as_a_message_takes_arrive(ends: Pair) -> None:
    left, right = ends
    send(left, MessageKind.LISTENING, 0, [left.fileno()] * MAX_SOCKETS)
    message = receive(right)
    assert message is not None
    assert len(message.sockets) == MAX_SOCKETS
    close_all(message.sockets)


def test_the_end_of_the_sender_is_none_also_within_a_message(ends: Pair) -> None:
    left, right = ends
    left.send(b"U\0")
    left.close()
    assert receive(right) is None


def test_what_is_no_message_is_refused(ends: Pair) -> None:
    left, right = ends
    left.send(b"?\0\0\0\0")
    with pytest.raises(ValueError, match=r"b'\?'"):
        receive(right)
