"""The server of the front door: its sockets, its event loop, and how it ends.

A server ends in one of three ways. After a signal, waiting requests are refused, and streams may end within the grace.
If systemd keeps the listening socket, waiting requests are served, too: new clients wait for the next process. If a new
process replaces this one, waiting requests are also served, and idle connections move to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from stoker.domain.host_port import host_port
from stoker.fleet.swapping.conductor import Conductor
from stoker.gateway.hand_over import ConnectionMover, HandOverRequests, Successor
from stoker.gateway.http_server import HttpServer
from stoker.gateway.socket_channel import MessageKind, send
from stoker.request.accept.connection import IdleConnections, ServerState, WireProtocol, most_connections
from stoker.request.accept.tls import HANDSHAKE_TIMEOUT

log = logging.getLogger("stoker.front")
BACKLOG = 2048
CUT_WITHIN = 0.5
"""Seconds after a second signal until connections are aborted: clients may read the end of their streams first."""
LAST_WRITE = 0.01
"""Seconds that an idle connection gets to announce its end."""
EXIT_WITHIN = 1.8
"""Seconds after a second signal until the process exits, whatever hangs."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    grace: float
    """Seconds that requests get to end."""
    opened: Callable[[], None]
    """Called once the sockets accept requests."""
    closing: Callable[[], None] = lambda: None
    """Called when shutdown begins, before it waits for leases."""
    leave_running: bool = False
    """The serves keep running."""
    tls: ssl.SSLContext | None = None
    """TLS for the TCP sockets; the control socket has none."""
    is_socket_kept: bool = False
    """systemd opened the TCP socket: clients that connect after a signal wait for the next process."""
    connections: Sequence[socket.socket] = ()
    """Open connections handed over by another process."""


class Server(HttpServer):
    """The first signal drains, the second ends at once."""

    def __init__(
        self,
        connect: Callable[[ServerState], asyncio.Protocol],
        conductor: Conductor,
        idle: IdleConnections,
        hand_over: HandOverRequests,
        options: ServerOptions,
    ) -> None:
        """`connect` makes the protocol of a client's connection."""
        super().__init__(max(1, round(options.grace) + 2))
        self._connect = connect
        self._conductor = conductor
        self._idle = idle
        self._hand_over = hand_over
        self._options = options
        self._listening: list[socket.socket] = []
        self._loop = asyncio.get_running_loop()
        self._finishing: asyncio.Task[None] | None = None
        self._draining: asyncio.Task[None] | None = None
        self._signalled = asyncio.Event()
        self.successor: Successor | None = None
        """The process that has replaced this one."""

    @property
    def leaves_running(self) -> bool:
        """Whether the serves keep running."""
        return self._options.leave_running or self.successor is not None

    async def startup(self, sockets: list[socket.socket]) -> None:
        self.server_state.most = most_connections()
        await self._accept(sockets)
        for one in self._options.connections:
            with contextlib.suppress(OSError):  # its client has left
                await self._loop.connect_accepted_socket(self._connection, one)
        self._options.opened()

    async def _accept(self, sockets: list[socket.socket]) -> None:
        self._listening = sockets
        for one in sockets:
            is_plain = one.family == getattr(socket, "AF_UNIX", None) or self._options.tls is None
            tls: dict[str, Any] = {"ssl": self._options.tls, "ssl_handshake_timeout": HANDSHAKE_TIMEOUT}
            self.servers.append(
                await self._loop.create_server(self._connection, sock=one, backlog=BACKLOG, **({} if is_plain else tls))
            )

    def _stop_accepting(self) -> list[socket.socket]:
        """Open copies of the listening sockets: clients that connect wait."""
        copies = [one.dup() for one in self._listening]
        for server in self.servers:
            server.close()
        self.servers.clear()
        return copies

    def _connection(self) -> asyncio.Protocol:
        return self._connect(self.server_state)

    @contextlib.contextmanager
    def handled_signals(self) -> Iterator[None]:
        """Handle SIGTERM, Ctrl-C and the end of the terminal, from before the first serve is adopted until the last one
        has stopped. Under `nohup` the end of the terminal stays ignored.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wanted = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            wanted.append(signal.SIGHUP)
        before = {number: signal.signal(number, self.handle_exit) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second ends at once. The exit code of an orderly end is 0."""
        if self.should_exit and not self.force_exit:
            self.force_exit = True
            last = threading.Timer(EXIT_WITHIN, _exit_now)
            last.daemon = True
            last.start()
            self._loop.call_soon_threadsafe(self._hurry)
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._signalled.set)

    async def main_loop(self) -> None:
        """Run until a signal, or until another process has replaced this one, with a new Date header every second."""
        replacing = self._loop.create_task(self._be_replaced(), name="hand-over")
        try:
            while not self.should_exit:
                self.renew_date()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await self._signalled.wait()
        finally:
            replacing.cancel()
            await asyncio.gather(replacing, return_exceptions=True)
        if self._options.is_socket_kept and self.successor is None and not self.force_exit:
            close(self._stop_accepting())
            mover = ConnectionMover(self._connections, None)
            self._finishing = self._loop.create_task(mover.run(self._idle, self._options.grace), name="finish")
            await asyncio.gather(self._finishing, return_exceptions=True)

    @property
    def _connections(self) -> Collection[WireProtocol]:
        return self.server_state.connections

    async def _be_replaced(self) -> None:
        """Until a successor has everything. On cancel the channel stays open: the successor waits for this process."""
        while True:
            successor = await self._hand_over.successor()
            if await self._give_all(successor):
                self.successor = successor
                self.should_exit = True
                self._signalled.set()
                return
            successor.channel.close()
            self._hand_over.end()

    async def _give_all(self, successor: Successor) -> bool:
        """False: the successor ended before this process was empty, so this one goes on."""
        log.info("process %d replaces this one: no more connections are accepted", successor.process)
        listening = self._stop_accepting()
        mover = ConnectionMover(self._connections, successor.channel)
        try:
            send(successor.channel, MessageKind.LISTENING, 0, [one.fileno() for one in listening])
            await mover.run(self._idle, self._options.grace)
            is_given = mover.has_received and not mover.has_lost_successor
        except OSError:
            is_given = False
        except asyncio.CancelledError:
            close(listening)
            raise
        if is_given:
            close(listening)
        else:
            log.warning("process %d ended before it replaced this one, which goes on", successor.process)
            await self._accept(listening)
        return is_given

    async def shutdown(self, sockets: list[socket.socket]) -> None:
        self._options.closing()
        has_waited = self.force_exit or self.successor is not None or self._finishing is not None
        grace = 0.0 if has_waited else self._options.grace
        self._draining = self._loop.create_task(self._conductor.shut_down(grace), name="drain")
        try:
            if self.successor is None or not all(connection.is_idle for connection in self._connections):
                await super().shutdown(sockets)
            else:
                for connection in tuple(self.server_state.connections):  # encrypted and idle
                    connection.transport.close()
                await self._draining
                await asyncio.sleep(LAST_WRITE)
                self._abort_connections()  # otherwise each one waits until its client closes it
        finally:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)
            for task in tuple(self.server_state.tasks):  # after a second signal nothing has cancelled them
                task.cancel()

    def _hurry(self) -> None:
        for task in (self._finishing, self._draining):
            if task is not None:
                task.cancel()
        self._conductor.hurry(self.leaves_running)
        self._loop.call_later(CUT_WITHIN, self._abort_connections)

    def _abort_connections(self) -> None:
        """Do not wait for clients that do not read."""
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


def _exit_now() -> None:
    """Exits although something hangs. The serves' processes were killed; containers that still run are on record."""
    os.write(
        2,
        b"stoker: no end within 2 s of the second signal; the next `stoker up` stops what still runs\n",
    )
    os._exit(1)


def listen(host: str, port: int) -> socket.socket:
    """Open the TCP socket. Raises OSError, whose text names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(
            f"cannot listen on {host_port(host, port)}: {error.strerror}; use another port with `stoker up --port N`"
        ) from error
    sock.setblocking(False)
    return sock


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def event_loop() -> Callable[[Any], int]:
    """uvloop if it is installed, else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    if sys.version_info >= (3, 12):
        return uvloop.run
    return lambda main: asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main)
