"""The server under the front door: its Date header, and how it waits for what still runs."""

from __future__ import annotations

import asyncio
import socket
from email.utils import formatdate

import pytest

from stoker.gateway.http_server import HttpServer, http_date


@pytest.mark.parametrize("wall", [0.0, 1_767_225_599.9, 1_772_323_200.0, 1_798_761_600.0])
def test_dates_are_those_of_http(wall: float) -> None:
    assert http_date(wall) == formatdate(wall, usegmt=True).encode()


class Running:
    """A request that ends when it is cancelled."""

    def __init__(self, server: HttpServer) -> None:
        self.is_cancelled = False
        self._tasks = server.server_state.tasks
        self._tasks.add(self)

    def cancel(self) -> None:
        self.is_cancelled = True
        self._tasks.discard(self)


class Door(HttpServer):
    """On a port of its own; with one request, which is running when it is told to exit."""

    def __init__(self, grace: float) -> None:
        super().__init__(grace)
        self.port = 0
        self.request = Running(self)

    async def startup(self, sockets: list[socket.socket]) -> None:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.servers.append(server)

    async def main_loop(self) -> None:
        self.should_exit = True


def test_what_has_not_ended_within_the_grace_is_cancelled_and_nobody_is_accepted() -> None:
    async def story() -> None:
        door = Door(grace=0.0)
        await door.serve([])
        assert door.request.is_cancelled
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", door.port)

    asyncio.run(story())


def test_what_ends_in_time_is_waited_for() -> None:
    async def story() -> None:
        door = Door(grace=60.0)
        asyncio.get_running_loop().call_later(0.15, door.server_state.tasks.discard, door.request)
        await door.serve([])
        assert (door.request.is_cancelled, door.server_state.tasks) == (False, set())

    asyncio.run(story())


def test_when_it_is_forced_nobody_is_waited_for() -> None:
    async def story() -> None:
        door = Door(grace=60.0)
        door.force_exit = True
        await door.serve([])
        assert (door.request.is_cancelled, door.server_state.tasks) == (False, {door.request})

    asyncio.run(story())
