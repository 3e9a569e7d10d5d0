"""Sends open sockets to another process over a unix socket (SCM_RIGHTS, unix(7)).

Each message is MESSAGE bytes: its kind, and a number. The sockets travel with its first byte.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

_FORMAT = struct.Struct("!cI")
MESSAGE = _FORMAT.size
"""Bytes of one message."""
MAX_SOCKETS = 250
"""Sockets in one message; Linux allows 253."""


class MessageKind(Enum):
    """What a message carries."""

    LISTENING = b"L"
    """The listening sockets: TCP first, then the control socket."""
    CONNECTION = b"C"
    """One idle connection of a client."""
    UNDER_WAY = b"U"
    """The number of connections with requests under way; no sockets."""
    RECEIVED = b"R"
    """From the successor: it has the listening sockets."""


class ChannelMessage(NamedTuple):
    kind: MessageKind
    number: int
    sockets: list[socket.socket]


def send(channel: socket.socket, kind: MessageKind, number: int = 0, handles: Sequence[int] = ()) -> None:
    """Send one message with copies of these descriptors. Raises OSError; BlockingIOError: the reader is behind."""
    data = _FORMAT.pack(kind.value, number)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handles))] if handles else []
    channel.sendmsg([data], ancillary)


def receive(channel: socket.socket) -> ChannelMessage | None:
    """Wait for one message. Its sockets are not inheritable. None: the sender is gone. Raises OSError (TimeoutError if
    the channel has a timeout), and ValueError for anything but a message.
    """
    data, handles, _, _ = socket.recv_fds(channel, MESSAGE, MAX_SOCKETS)
    sockets = []
    for handle in handles:
        os.set_inheritable(handle, False)
        sockets.append(socket.socket(fileno=handle))
    while data and len(data) < MESSAGE:
        more = channel.recv(MESSAGE - len(data))
        data = data + more if more else b""
    if not data:
        close_all(sockets)
        return None
    kind, number = _FORMAT.unpack(data)
    return ChannelMessage(MessageKind(kind), number, sockets)


def close_all(sockets: Sequence[socket.socket]) -> None:
    """Closes them, and ignores those that are already closed."""
    for one in sockets:
        with contextlib.suppress(OSError):
            one.close()
