"""A port that Stoker picked, and that another program takes before the engine binds it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.fleet.supervision.test_supervisor_start import refused

from stoker.fleet.process.environment import free_port

Tell = Callable[[Any], None]


class Thief:
    """Another program that takes a serve's port before the engine binds it, `times` times."""

    def __init__(self, workshop: Any, times: int, models: str = "") -> None:
        self._workshop = workshop
        self._times = times
        self._models = models
        """What it answers, as a model server; empty: it only listens."""
        self.ports: list[int] = []
        self._servers: list[asyncio.Server] = []

    async def close(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()

    async def steal(self) -> None:
        while len(self.ports) < self._times:
            port = self._seen()
            if port in (None, *self.ports):
                await asyncio.sleep(0.005)  # until the engine's record is on disk
                continue
            self._servers.append(await asyncio.start_server(self._answer, "127.0.0.1", port))
            self.ports.append(port)

    def _seen(self) -> int | None:
        try:
            record = json.loads(self._workshop.record().read_bytes())
        except FileNotFoundError:
            return None
        return int(record["port"]) if record["pid"] else None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if self._models:
            body = json.dumps({"object": "list", "data": [{"id": self._models}]}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()


@asynccontextmanager
async def stealing(thief: Thief) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(thief.steal())
        yield
        task.cancel()
    await thief.close()


@pytest.mark.parametrize("models", ["", "somebody-elses"])
def test_a_port_that_another_program_takes_before_the_engine_does_is_exchanged_for_another(
    tell: Tell, caplog: pytest.LogCaptureFixture, models: str
) -> None:
    async def story(workshop: Any) -> None:
        thief = Thief(workshop, 1, models)
        fleet = workshop.supervisor()
        async with stealing(thief):
            running = await fleet.start(workshop.serve("--delay", "1.0"), workshop.on_exit)
        assert running.target.port not in thief.ports
        assert json.loads(workshop.record().read_bytes())["port"] == running.target.port
        assert f"another program took port {thief.ports[0]} first" in caplog.text
        assert workshop.log().count("--- stoker") == 2
        await fleet.close(False)
        assert workshop.exits == []

    tell(story)


def test_a_start_that_loses_its_port_again_and_again_fails_after_three_tries(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        thief = Thief(workshop, 3)
        async with stealing(thief):
            assert "its port is taken" in await refused(workshop, "--delay", "1.0")
        assert len(thief.ports) == workshop.log().count("--- stoker") == 3

    tell(story)


def test_a_fixed_port_that_is_lost_is_not_exchanged_for_another(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        thief = Thief(workshop, 1)
        async with stealing(thief):
            assert "its port is taken" in await refused(workshop, "--delay", "1.0", port=free_port("127.0.0.1", ()))
        assert workshop.log().count("--- stoker") == 1

    tell(story)
