"""What all connections of a server share."""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from typing import Protocol

from stoker.request.accept.idle_connections import MovableConnection

log = logging.getLogger("stoker.front")
RESERVE = 64
"""Descriptors for the control socket, files, and what watches engines."""
BATCH = 20
"""So many of the connections that may stay, divided by this, are closed at once: to look at all of them takes time."""
WARN_EVERY = 60.0
"""Seconds."""


class HostedConnection(MovableConnection, Protocol):
    """A client's connection, as the server sees it."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    is_local: bool

    @property
    def is_unproved(self) -> bool:
        """It has not sent a whole head yet."""

    @property
    def waiting_since(self) -> float:
        """When it was opened, or made its last progress."""

    def shutdown(self) -> None:
        """Let the request under way be the last one."""


class Cancellable(Protocol):
    """A request that runs."""

    def cancel(self) -> object: ...


class ServerState:
    """`default_headers` are those of each reply."""

    __slots__ = ("_next_warning", "connections", "default_headers", "most", "tasks")

    def __init__(self) -> None:
        self.connections: set[HostedConnection] = set()
        self.tasks: set[Cancellable] = set()
        """The requests that wait for something."""
        self.default_headers: list[tuple[bytes, bytes]] = []
        self.most = sys.maxsize
        """More connections than this `make_room`: each of them, and the serve that answers it, needs a descriptor."""
        self._next_warning = 0.0

    def set_date(self, date: bytes) -> None:
        """Of the replies from here on."""
        self.default_headers = [(b"date", date)]

    def make_room(self, newcomer: HostedConnection) -> None:
        """Close connections so that those who ask find a descriptor: first those that have sent no whole head, then
        those between two requests, each kind the oldest first. If all are at work, the newcomer stays until the
        descriptors are used up. The control socket's are not touched.
        """
        if newcomer.is_local:
            return
        others = [one for one in self.connections if one is not newcomer and not one.is_local]
        others.sort(key=lambda one: one.waiting_since)
        leaving = [one for one in others if one.is_unproved] + [one for one in others if one.is_idle]
        leaving = list(dict.fromkeys(leaving))[: max(1, self.most // BATCH)]
        if not leaving and len(self.connections) > 2 * self.most:
            leaving = [newcomer]
        for one in leaving:
            self.connections.discard(one)
            one.transport.abort()
        now = newcomer.loop.time()
        if leaving and now >= self._next_warning:
            self._next_warning = now + WARN_EVERY
            log.warning(
                "%d connections are open: the oldest that ask nothing are closed, because descriptors run out (raise "
                "`ulimit -n`, or LimitNOFILE of the service)", len(self.connections),
            )  # fmt: skip


def most_connections() -> int:
    """How many connections this process has descriptors for, a second one for each of them included."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(1, (limit - RESERVE) // 2)
