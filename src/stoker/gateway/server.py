"""What the program stands on: its sockets, its log, its event loop, and uvicorn with Stoker's way to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from stoker.disk.directories import make_directory
from stoker.domain.printable import one_line
from stoker.fleet.process.logs import open_log
from stoker.fleet.swapping.conductor import Conductor

BACKLOG = 2048
CUT_WITHIN = 0.5
"""Seconds that clients have to take the end of their streams after a second signal."""
LAST = 1.8
"""Seconds after a second signal until the process ends, whatever hangs."""


class Server(uvicorn.Server):
    """uvicorn's server with Stoker's way to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        conductor: Conductor,
        grace: float,
        opened: Callable[[], None],
        closing: Callable[[], None] = lambda: None,
        leave_running: bool = False,
    ) -> None:
        """`closing`: called when the end begins, before leases are waited for. `leave_running`: serves outlive it."""
        super().__init__(config)
        self._closing = closing
        self._opened = opened
        self._conductor = conductor
        self._grace = grace
        self._leave_running = leave_running
        self._loop = asyncio.get_running_loop()
        self._draining: asyncio.Task[None] | None = None
        self._signalled = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._opened()

    @contextlib.contextmanager
    def signals_taken(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C are ours, from before the first serve is looked for until the last one is gone."""
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
        yield  # uvicorn's covers no more than `serve`

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second ends now. An orderly end is exit code 0."""
        if self.should_exit and not self.force_exit:
            self.force_exit = True
            last = threading.Timer(LAST, _exit_now)
            last.daemon = True
            last.start()
            self._loop.call_soon_threadsafe(self._hurry)
        self.should_exit = True
        self._loop.call_soon_threadsafe(self._signalled.set)

    async def main_loop(self) -> None:
        """Until a signal, with a new Date header every second; uvicorn's own looks for signals ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._signalled.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing()
        self._draining = self._loop.create_task(self._conductor.drain(self._grace), name="drain")
        try:
            await super().shutdown(sockets)
        finally:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)
            for turn in tuple(self.server_state.tasks):  # after a second signal uvicorn leaves them to themselves
                turn.cancel()

    def _hurry(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
        self._conductor.hurry(self._leave_running)
        self._loop.call_later(CUT_WITHIN, self._abort_connections)

    def _abort_connections(self) -> None:
        """A client that does not take its last words is not waited for."""
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()


def _exit_now() -> None:
    """Something hangs. All that can be killed was; what a dead daemon still runs is on record for the next start."""
    os.write(2, b"stoker: something did not end within 2 s of the second signal; the next `stoker up` looks after it\n")
    os._exit(1)


def listen(host: str, port: int) -> socket.socket:
    """The TCP door. Raises OSError naming the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise OSError(
            f"cannot listen on {host}:{port}: {error.strerror}; `stoker up --port N` takes another"
        ) from error
    sock.setblocking(False)
    return sock


def close(sockets: list[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


class _PrivateLog(RotatingFileHandler):
    """A rotated log that only its owner can read, whatever directory it lies in."""

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(
            os.fdopen(open_log(Path(self.baseFilename)), "ab"), encoding="utf-8", errors="backslashreplace"
        )


class _Records(logging.Formatter):
    """One line for each record, whatever its text holds; what follows of a traceback is set in."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return _set_in(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _set_in(super().formatStack(stack_info))


def _set_in(text: str) -> str:
    return "\n".join(f"    {one_line(line)}" for line in text.split("\n"))


@contextlib.contextmanager
def logging_to(logs: Path, most: int) -> Iterator[None]:
    """Stoker's own log: `LOGS/stoker.log`, at most `most` bytes and as many of the one before.

    Raises StokerError `state_unusable` where others may write into the directory, and OSError.
    """
    make_directory(logs, "choose another one with `logs` under [paths]")
    os.close(open_log(logs / "stoker.log"))
    handler = _PrivateLog(logs / "stoker.log", maxBytes=most, backupCount=1, delay=True)
    handler.setFormatter(_Records("%(asctime)s %(levelname)s %(name)s %(message)s"))
    loggers = [logging.getLogger(name) for name in ("stoker", "uvicorn.error", "asyncio")]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if logger.name == "stoker" else logging.ERROR)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagates) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagates
        handler.close()


def event_loop() -> Callable[[Any], int]:
    """uvloop where it is there; asyncio's own elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    if sys.version_info >= (3, 12):
        return uvloop.run
    return lambda main: asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main)
