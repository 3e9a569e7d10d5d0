"""What all connections of a server share."""

from __future__ import annotations

import asyncio
from typing import Protocol

from stoker.request.accept.idle_connections import MovableConnection


class HostedConnection(MovableConnection, Protocol):
    """A client's connection, as the server sees it."""

    transport: asyncio.Transport

    def shutdown(self) -> None:
        """Let the request under way be the last one."""


class Cancellable(Protocol):
    """A request that runs."""

    def cancel(self) -> object: ...


class ServerState:
    """`default_headers` are those of each reply."""

    __slots__ = ("connections", "default_headers", "tasks")

    def __init__(self) -> None:
        self.connections: set[HostedConnection] = set()
        self.tasks: set[Cancellable] = set()
        """The requests that wait for something."""
        self.default_headers: list[tuple[bytes, bytes]] = []

    def set_date(self, date: bytes) -> None:
        """Of the replies from here on."""
        self.default_headers = [(b"date", date)]
