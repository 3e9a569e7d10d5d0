"""The HTTP server: its sockets, its event loop, and uvicorn with Stoker's own shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn

from stoker.fleet.swapping.conductor import Conductor
from stoker.request.accept.tls import HANDSHAKE_TIMEOUT

BACKLOG = 2048
CUT_WITHIN = 0.5
"""Seconds after a second signal until connections are aborted: clients may read the end of their streams first."""
EXIT_WITHIN = 1.8
"""Seconds after a second signal until the process exits, whatever hangs."""


class Server(uvicorn.Server):
    """uvicorn's server: the first signal drains, the second ends at once."""

    def __init__(
        self,
        config: uvicorn.Config,
        conductor: Conductor,
        grace: float,
        opened: Callable[[], None],
        closing: Callable[[], None] = lambda: None,
        leave_running: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`opened`: called when the sockets are served. `closing`: called when shutdown begins, before it waits for
        leases. `leave_running`: the serves keep running. `tls`: for the TCP sockets; the control socket is plain.
        """
        super().__init__(config)
        self._closing = closing
        self._opened = opened
        self._conductor = conductor
        self._grace = grace
        self._leave_running = leave_running
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None
        self._signalled = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        given = sockets or []
        plain = [one for one in given if self._tls is None or one.family == getattr(socket, "AF_UNIX", None)]
        await super().startup(plain)
        for one in given:
            if one not in plain:  # uvicorn would use one context for all sockets
                self.servers.append(
                    await self._loop.create_server(
                        self._connection, sock=one, ssl=self._tls, backlog=BACKLOG,
                        ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
                    )
                )  # fmt: skip
        self._opened()

    def _connection(self) -> asyncio.Protocol:
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state={}, _loop=None)

    @contextlib.contextmanager
    def handled_signals(self) -> Iterator[None]:
        """Handle SIGTERM and Ctrl-C, from before the first serve is adopted until the last one has stopped."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # uvicorn would handle signals only during `serve`: see `handled_signals`

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
        """Run until a signal, with a new Date header every second. uvicorn's own loop polls ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._signalled.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing()
        self._draining = self._loop.create_task(self._conductor.shut_down(self._grace), name="drain")
        try:
            await super().shutdown(sockets)
        finally:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)
            for task in tuple(self.server_state.tasks):  # after a second signal uvicorn does not cancel them
                task.cancel()

    def _hurry(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
        self._conductor.hurry(self._leave_running)
        self._loop.call_later(CUT_WITHIN, self._abort_connections)

    def _abort_connections(self) -> None:
        """Do not wait for clients that do not read."""
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


def _exit_now() -> None:
    """Something hangs. The serves' processes were killed; containers that still run are on record."""
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
            f"cannot listen on {host}:{port}: {error.strerror}; use another port with `stoker up --port N`"
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
