"""One Stoker replaces another without refusing a request.

The new process asks for the sockets over the control socket (POST /admin/hand-over). That connection then becomes the
channel over which they are sent. This process accepts no more connections, which wait in the listening sockets' queues,
and serves the requests that it has. A connection that is idle moves to the new process. When nothing is left, or the
grace is over, this process ends and leaves its serves running. If the new process ends before that, this one goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import msgspec

from stoker.domain.access import ListenSettings
from stoker.domain.errors import ClientError
from stoker.domain.host_port import host_port
from stoker.gateway.socket_channel import MESSAGE, MessageKind, send
from stoker.request.accept.connection import IdleConnections, MovableConnection

log = logging.getLogger("stoker.front")
POLL_INTERVAL = 0.02
"""Seconds between two checks of connections whose reply was still being sent."""
REPORT = 1.0
"""Seconds between two reports of how many requests are under way."""
CHANNEL_TIMEOUT = 5.0
"""Seconds until Stoker gives up on a new process that is not ready to receive."""


class HandOverRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /admin/hand-over: the address at which the new process will listen, and its process id."""

    host: str
    port: int
    process: int


class Successor(NamedTuple):
    """The process that replaces this one. Whoever takes `channel` has to close it."""

    process: int
    channel: socket.socket


class HandOverRequests:
    """Accepts the request of a new process, at most one at a time."""

    def __init__(self, idle: IdleConnections, door: Callable[[], ListenSettings]) -> None:
        """`door`: where this process listens."""
        self._idle = idle
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._connection: MovableConnection | None = None
        self._process = 0
        self._timer: asyncio.TimerHandle | None = None
        self._successors: asyncio.Queue[Successor] = asyncio.Queue()

    def accept(self, connection: MovableConnection, body: bytes) -> dict[str, Any]:
        """Answer the request that came over `connection`. Raises ClientError; then nothing has changed."""
        try:
            asked = msgspec.json.decode(body, type=HandOverRequest)
        except msgspec.DecodeError as error:
            raise ClientError(f"the body of /admin/hand-over is invalid: {error}", code="bad_json") from None
        door = self._door()
        if self._connection is not None:
            text = f"process {self._process} is replacing this Stoker already: wait until it says that it listens"
            raise ClientError(text, code="being_replaced", status=409)
        if os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
            text = "this Stoker runs as a systemd service: type `systemctl restart stoker` instead"
            raise ClientError(text, code="not_replaceable", status=409)
        if (asked.host, asked.port) != (door.host, door.port):
            text = (
                f"this Stoker listens on {host_port(door.host, door.port)}, the new one would listen on "
                f"{host_port(asked.host, asked.port)}: stop this one, and start the other without --replace"
            )
            raise ClientError(text, code="other_address", status=409)
        self._connection, self._process = connection, asked.process
        self._idle.give_to(self._take_channel)
        self._timer = self._loop.call_later(CHANNEL_TIMEOUT, self.end)
        return {"process": os.getpid(), "grace": door.shutdown_grace}

    async def successor(self) -> Successor:
        """Waits for a new process. Call `end` when it has everything, or is gone."""
        return await self._successors.get()

    def end(self) -> None:
        """From now on another new process may ask."""
        if self._timer is not None:
            self._timer.cancel()
        self._connection = self._timer = None
        self._idle.give_to(None)

    def _take_channel(self, connection: MovableConnection) -> None:
        """The reply to the request is complete: its connection becomes the channel."""
        if connection is self._connection and self._timer is not None and not connection.move(self._found):
            self._loop.call_soon(self._take_channel, connection)  # the reply is not sent yet

    def _found(self, handle: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        channel = socket.socket(fileno=os.dup(handle))
        channel.setblocking(False)
        self._successors.put_nowait(Successor(self._process, channel))


class ConnectionMover:
    """Empties this process: idle connections go to the successor, those with a request follow after its reply."""

    def __init__(self, connections: Collection[MovableConnection], channel: socket.socket | None) -> None:
        """`connections`: the open ones, kept up to date by the server. `channel` None: they stay, and their next reply
        is the last.
        """
        self._connections = connections
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self.has_lost_successor = False
        self.has_received = channel is None
        """The successor has the listening sockets."""

    @property
    def under_way(self) -> int:
        return sum(not connection.is_idle for connection in self._connections)

    @property
    def _has_work(self) -> bool:
        """An idle connection that cannot move may be closed."""
        stays = self._channel is None
        return any(not one.is_idle or not (stays or one.is_encrypted) for one in self._connections)

    async def run(self, idle: IdleConnections, grace: float) -> None:
        """Runs until no request is under way, the successor is gone, or `grace` is over. On cancel nothing more moves.

        Requests on connections that stay are served as always.
        """
        idle.give_to(self._move_soon)
        idle.end(self._channel is None or any(connection.is_encrypted for connection in self._connections))
        if self._channel is not None:
            self._loop.add_reader(self._channel, self._on_readable)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._empty()
        finally:
            idle.give_to(None)
            idle.end(False)
            if self._channel is not None:
                self._loop.remove_reader(self._channel)

    async def _empty(self) -> None:
        report_at = self._loop.time()
        while not self.has_lost_successor:
            for connection in tuple(self._connections):
                self._move(connection)
            if self.has_received and not self._has_work:
                return
            if self._loop.time() >= report_at:
                report_at = self._loop.time() + REPORT
                self._report()
            await asyncio.sleep(POLL_INTERVAL)

    def _move(self, connection: MovableConnection) -> None:
        channel = self._channel
        if channel is None or connection.is_encrypted:
            connection.announce_end()
            return
        with contextlib.suppress(OSError):  # BlockingIOError: the successor is behind; the next check tries again
            connection.move(lambda handle: send(channel, MessageKind.CONNECTION, 0, [handle]))

    def _move_soon(self, connection: MovableConnection) -> None:
        """Moves the connection once its reply was written to the socket."""
        self._loop.call_soon(self._move, connection)

    def _report(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                send(self._channel, MessageKind.UNDER_WAY, self.under_way)

    def _on_readable(self) -> None:
        """The successor writes once, when it has the listening sockets. The next read shows that it has ended."""
        assert self._channel is not None
        try:
            data = self._channel.recv(MESSAGE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.has_received |= bool(data)
        self.has_lost_successor |= not data
