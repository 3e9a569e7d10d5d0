"""Serves that somebody else runs: found, watched, forgotten; never started, never stopped."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from stoker.domain.errors import StartFailed
from stoker.domain.lease import Target
from stoker.domain.serve import Driver, Secret, Serve, ServeIdentity
from stoker.fleet.drivers import external as external_driver
from stoker.fleet.drivers.external import address_of
from stoker.fleet.process.environment import free_port
from stoker.http import client

Tell = Callable[[Any], None]


@asynccontextmanager
async def somebody(workshop: Any, *options: str) -> AsyncIterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_port("127.0.0.1", ())
    argv = [word.replace("{port}", str(port)) for word in workshop.serve(*options).cmd]
    with subprocess.Popen(argv) as process:
        async with asyncio.timeout(5):
            while True:
                try:
                    await client.ask(Target("127.0.0.1", port), "/health")
                    break
                except client.NoResponse:
                    await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}/v1", process
        finally:
            process.kill()


def external(base_url: str, **fields: Any) -> Serve:
    return Serve(name="a", engine="openai", driver=Driver.EXTERNAL, base_url=base_url, **fields)


@pytest.fixture
def never_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a serve that answers; of one that may be lost, soon."""
    monkeypatch.setattr("stoker.fleet.drivers.external.POLL_INTERVAL", 1000.0)
    monkeypatch.setattr("stoker.fleet.drivers.external.MAX_POLL_INTERVAL", 0.02)


@pytest.mark.usefixtures("never_asked_again")
def test_an_external_serve_is_proved_watched_and_forgotten(tell: Tell) -> None:

    async def story(workshop: Any) -> None:
        async with somebody(workshop, "--key", "sesame") as (url, process):
            fleet = workshop.supervisor()
            serve = external(url, key=Secret("sesame", "env:X"))
            running = await fleet.start(serve, workshop.on_exit)
            assert running.pid is None
            assert (running.target.key, running.target.base_path) == ("sesame", "")
            await fleet.stop("a", 1)
            assert process.poll() is None, "it is not ours to stop"
            await fleet.start(serve, workshop.on_exit)
            process.kill()
            await asyncio.wait_for(workshop.exited.wait(), 5)
            assert "stopped answering at" in workshop.exits[0][1]
            assert fleet.statistics() == {}
            await fleet.close(False)

    tell(story)


class Answers:
    """A server of one model that counts questions and connections. `keeps`: connections stay open."""

    def __init__(self, keeps: bool = True) -> None:
        self.keeps = keeps
        self.questions = self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        body = b'{"data": [{"id": "a"}]}'
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                self.questions += 1
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
                if not self.keeps or b"connection: close" in asked.lower():
                    break
        writer.close()

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()

    async def end(self) -> None:
        self.hang_up()
        for writer in self._writers:
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def answering(workshop: Any, answers: Answers) -> AsyncIterator[Any]:
    """A fleet whose serve is there, and the server of that serve."""
    server = await asyncio.start_server(answers, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fleet = workshop.supervisor()
    await fleet.start(external(f"http://127.0.0.1:{port}/v1"), workshop.on_exit)
    answers.questions = answers.connections = 0
    yield server
    await fleet.close(False)
    server.close()
    await answers.end()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)


def test_a_serve_that_answers_is_asked_seldom_and_over_one_connection(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 5 <= external_driver.POLL_INTERVAL <= 10
    monkeypatch.setattr(external_driver, "POLL_INTERVAL", 0.01)

    async def story(workshop: Any) -> None:
        answers = Answers()
        async with answering(workshop, answers):
            await until(lambda: answers.questions >= 5)
            assert answers.connections == 1

    tell(story)


@pytest.mark.usefixtures("never_asked_again")
def test_a_connection_that_ends_is_no_loss_but_a_reason_to_ask(tell: Tell) -> None:
    """Servers end connections that are idle."""

    async def story(workshop: Any) -> None:
        answers = Answers()
        async with answering(workshop, answers) as server:
            await until(lambda: answers.questions == 1)
            answers.hang_up()
            await until(lambda: (answers.questions, answers.connections) == (2, 2))
            assert not workshop.exited.is_set()
            server.close()
            answers.hang_up()
            await asyncio.wait_for(workshop.exited.wait(), 5)

    tell(story)


@pytest.mark.usefixtures("never_asked_again")
def test_a_server_that_keeps_no_connection_is_asked_again_soon_and_its_loss_noticed(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        answers = Answers(keeps=False)
        async with answering(workshop, answers) as server:
            await until(lambda: answers.questions >= 3)
            server.close()
            await asyncio.wait_for(workshop.exited.wait(), 5)

    tell(story)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:9/v1", "nothing listens on port 9"),
        ("https://127.0.0.1:9/v1", "nothing listens on port 9"),
        ("http://nowhere.invalid/v1", "connection failed"),
        ("http://127.0.0.1:LISTENS/v1", "no answer within"),
        ("https://127.0.0.1:LISTENS/v1", "connection failed"),
    ],
)
@pytest.mark.parametrize("identity", list(ServeIdentity))
def test_an_external_serve_without_a_connection_is_given_up_at_the_first_try(
    tell: Tell, url: str, why: str, identity: ServeIdentity
) -> None:
    """1, 2 refused  3 no such host  4 a server that is silent is waited for  5 one that speaks no TLS is not"""

    async def story(workshop: Any) -> None:
        silent: list[asyncio.StreamWriter] = []

        def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            silent.append(writer)
            if "https" in url:
                writer.write(b"this is no TLS")

        fleet, server = workshop.supervisor(), await asyncio.start_server(answer, "127.0.0.1", 0)
        address = url.replace("LISTENS", str(server.sockets[0].getsockname()[1]))
        probe = "/health" if identity is ServeIdentity.NONE else None
        limit = 0.1 if why == "no answer within" else 60
        serve = external(address, ready_timeout=limit, identity=identity, probe=probe)
        with pytest.raises(StartFailed, match=r"start it, or correct its `base_url`") as failed:
            await fleet.start(serve, workshop.on_exit)
        waited = re.search(r" within [\d.]+ s \(", failed.value.message)
        assert bool(waited) is (why == "no answer within")
        assert waited or why in failed.value.message
        assert fleet.statistics() == {}
        await fleet.close(False)
        server.close()
        for writer in silent:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    tell(story)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("503", r"is not ready at .*answered 503\): it is probably still loading"),
        ("401", r"refuses its `key` \(GET .* answered 401\): correct it"),
    ],
)
def test_an_external_serve_that_answers_with_an_error_is_no_wrong_address(tell: Tell, status: str, told: str) -> None:
    async def story(workshop: Any) -> None:
        fleet = workshop.supervisor()
        async with somebody(workshop, "--health", status) as (url, _):
            with pytest.raises(StartFailed, match=told):
                await fleet.start(external(url, ready_timeout=0.1), workshop.on_exit)
        await fleet.close(False)

    tell(story)


def test_an_external_serve_without_a_health_path_is_asked_for_its_models(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        async with somebody(workshop, "--health", "404") as (url, _):
            fleet = workshop.supervisor()
            await fleet.start(external(url), workshop.on_exit)
            await fleet.close(True)
            assert fleet.statistics() == {}

    tell(story)


def test_an_external_serve_with_a_wrong_key_or_id_is_refused(tell: Tell) -> None:
    async def story(workshop: Any) -> None:
        async with somebody(workshop, "--key", "k", "--id", "b") as (url, _):
            fleet = workshop.supervisor()
            with pytest.raises(StartFailed, match="refuses Stoker's key"):
                await fleet.start(external(url), workshop.on_exit)
            with pytest.raises(StartFailed, match="wanted 'a', GET /v1/models shows 'b'"):
                await fleet.start(external(url, key=Secret("k", "env:K")), workshop.on_exit)
            await fleet.close(False)

    tell(story)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://h:1/v1", Target("h", 1)),
        ("http://h:1/v1/", Target("h", 1)),
        ("http://h:1", Target("h", 1)),
        ("https://api.example.com/llm/v1", Target("api.example.com", 443, "/llm", tls=True)),
        ("http://[::1]:8/v1", Target("::1", 8)),
    ],
)
def test_a_base_url_is_taken_apart(url: str, address: Target) -> None:
    assert address_of(external(url)) == replace(address, served_name="a")


@pytest.mark.parametrize("url", ["ftp://h/v1", "h:1", "http://h:port/", ""])
def test_a_base_url_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(StartFailed, match="no usable base_url"):
        address_of(external(url))
