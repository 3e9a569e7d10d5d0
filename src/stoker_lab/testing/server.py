"""The scripted model server in the test's own loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from stoker_lab.testing.ballast import Ballast
from stoker_lab.testing.connection import ServerConnection
from stoker_lab.testing.routes import ScriptedRoutes
from stoker_lab.testing.script.record import RecordedRequest, RequestCounters, RequestLog
from stoker_lab.testing.script.script import Script

_BACKLOG = 2048


class ScriptedServer:
    """Serves on `host:port` from `start` to `close` (or as a context manager); port 0 picks a free one.

    `script` may be replaced while it runs: requests under way keep the one that they began with. The fields marked
    *program* do nothing here. `now` is what `ready_after` is measured by: with `FakeClock().now` a load takes as long
    as a test says.
    """

    def __init__(
        self,
        script: Script | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.script = script or Script()
        self.host = host
        self.port = port
        self._now = now
        self.books = RequestLog()
        self.ballast = Ballast()
        self.lines: set[ServerConnection] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def requests(self) -> list[RecordedRequest]:
        """Requests, oldest first, without /health and /control."""
        return self.books.requests

    @property
    def counters(self) -> RequestCounters:
        return self.books.counters

    def amend(self, changes: dict[str, Any]) -> None:
        """Changes fields of the script for later requests. Raises ValueError for an unknown or wrong field."""
        self.script = self.script.amended(changes)

    async def until(self, holds: Callable[[RequestCounters], bool], timeout: float = 5.0) -> None:
        """Waits until the counters satisfy `holds`, called on each change. Raises TimeoutError with the counters."""
        await self.books.until(holds, timeout)

    async def start(self) -> None:
        """Starts to listen; `ready_after` counts from here. Raises OSError if the port is taken."""
        routes = ScriptedRoutes(self, self._now, self.ballast)
        self.ballast.hold(self.script.memory_mb)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ServerConnection(self, routes.answer), self.host, self.port, backlog=_BACKLOG
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stops listening and cuts every connection; returns when all are gone. A second call does nothing."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for line in list(self.lines):
            line.abort()
        await self.until(lambda counters: not counters.connections)
        self.ballast.drop()
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
