"""Serves connections on sockets until it is told to exit, and ends them in order."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from abc import ABC, abstractmethod

from stoker.request.accept.connection import ServerState

log = logging.getLogger("stoker.front")
NOTICE = 0.1
"""Seconds between two looks at whether connections and requests have ended."""
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class HttpServer(ABC):
    """Serves what a subclass opens until it says that it is time to exit, then ends everything in order."""

    def __init__(self, grace: float) -> None:
        """`grace`: seconds that connections get to end."""
        self.server_state = ServerState()
        self.servers: list[asyncio.Server] = []
        self.should_exit = False
        self.force_exit = False
        """Wait for nobody."""
        self._grace = grace

    async def serve(self, sockets: list[socket.socket]) -> None:
        self.renew_date()
        await self.startup(sockets)
        if not self.should_exit:
            await self.main_loop()
        await self.shutdown(sockets)

    @abstractmethod
    async def startup(self, sockets: list[socket.socket]) -> None:
        """Open `servers` on the sockets."""

    @abstractmethod
    async def main_loop(self) -> None:
        """Wait for a reason to exit."""

    def renew_date(self) -> None:
        """Set the `Date` that replies carry to the present second. To be called every second."""
        self.server_state.set_date(http_date(time.time()))

    async def shutdown(self, sockets: list[socket.socket]) -> None:
        """Accept nobody, and wait until everybody has left. What still runs after the grace is cancelled."""
        for server in self.servers:
            server.close()
        for one in sockets:
            one.close()
        for connection in tuple(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(NOTICE)
        try:
            async with asyncio.timeout(self._grace):
                await self._wait_until_all_left()
        except TimeoutError:
            tasks = tuple(self.server_state.tasks)
            log.error("%d requests are cut: they had not ended in time", len(tasks))
            for task in tasks:
                task.cancel()

    async def _wait_until_all_left(self) -> None:
        state = self.server_state
        while (state.connections or state.tasks) and not self.force_exit:  # noqa: ASYNC110  # only once, at the end
            await asyncio.sleep(NOTICE)
        for server in self.servers:
            await server.wait_closed()


def http_date(wall: float) -> bytes:
    """As a Date header has it: `Tue, 24 Nov 2026 08:00:00 GMT`, in any locale."""
    at = time.gmtime(wall)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    return (
        f"{day}, {at.tm_mday:02d} {month} {at.tm_year:04d} {at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d} GMT"
    ).encode()
