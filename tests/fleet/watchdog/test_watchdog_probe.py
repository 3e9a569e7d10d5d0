"""Asking a real socket: what the list of models and the counters come to, and what of it is unknown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from stoker.domain.lease import Target
from stoker.domain.protocols import Running
from stoker.domain.serve import Serve, ServeIdentity
from stoker.engines.signals import Signals
from stoker.fleet.memory.engaged import EngagedDevices
from stoker.fleet.watchdog import probe
from stoker.fleet.watchdog.probe import NO_COUNTERS, HostState, HttpProbe, Listing, question


class Engine:
    """Answers every GET with what is set for its path; `asked` lists the paths."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []

    async def __aenter__(self) -> Engine:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        self.asked.append(path)
        status, body = self.answers.get(path, (404, b""))
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        writer.close()

    def running(self, facts: dict[str, Any] | None = None) -> Running:
        port = self._server.sockets[0].getsockname()[1]
        return Running(Serve(name="a", engine="vllm"), Target("127.0.0.1", port, "", "a"), None, 0.0, facts or {})


def collect(running: Running) -> HostState:
    return HostState(EngagedDevices((running.serve.name,)))


def test_the_list_of_models_tells_ids_and_context_and_health_is_never_asked() -> None:
    async def story() -> None:
        async with Engine() as engine:
            engine.answers["/v1/models"] = 200, b'{"data": [{"id": "b"}, {"id": "a", "max_model_len": 4096}, 7]}'
            assert await HttpProbe(collect).models(engine.running()) == Listing(("b", "a"), 4096)
            assert engine.asked == ["/v1/models"]

    asyncio.run(story())


def test_a_context_that_is_not_listed_is_that_of_the_start_or_unknown() -> None:
    async def story() -> None:
        async with Engine() as engine:
            engine.answers["/v1/models"] = 200, b'{"data": [{"id": "a"}]}'
            assert (await HttpProbe(collect).models(engine.running({"n_ctx": 512}))).context == 512
            assert (await HttpProbe(collect).models(engine.running())).context is None

    asyncio.run(story())


def test_no_answer_of_use_is_a_miss_that_says_what_came_instead() -> None:
    async def story() -> None:
        async with Engine() as engine:
            asked = HttpProbe(collect).models(engine.running())
            assert await asked == Listing(None, miss="it answered 404")
            for body in (b"<html>", b"[]", b'{"data": 3}'):
                engine.answers["/v1/models"] = 200, body
                assert (await HttpProbe(collect).models(engine.running())).ids is None
            gone = engine.running()
        assert (await HttpProbe(collect).models(gone)).miss.startswith("nothing listens on port")

    asyncio.run(story())


def test_counters_are_read_by_the_engines_name_and_unknown_where_there_are_none() -> None:
    async def story() -> None:
        async with Engine() as engine:
            assert await HttpProbe(collect).counters(engine.running()) == NO_COUNTERS
            engine.answers["/metrics"] = 200, b"vllm:prompt_tokens_total 5\n"
            assert await HttpProbe(collect).counters(engine.running()) == Signals(prompt_tokens=5.0)
            gone = engine.running()
        assert await HttpProbe(collect).counters(gone) == NO_COUNTERS

    asyncio.run(story())


def test_the_host_state_is_read_in_a_thread() -> None:
    async def story() -> None:
        async with Engine() as engine:
            assert (await HttpProbe(collect).host_state(engine.running())).devices.wanted == ("a",)

    asyncio.run(story())


def test_a_serve_that_never_answers_is_given_up_after_the_timeout(monkeypatch: Any) -> None:
    monkeypatch.setattr(probe, "TIMEOUT", 0.05)

    async def story() -> None:
        hang = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hang.wait()
            writer.close()

        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
            target = Target("127.0.0.1", server.sockets[0].getsockname()[1], "", "a")
            listing = await HttpProbe(collect).models(Running(Serve(name="a"), target, None, 0.0, {}))
            assert listing.miss == "no answer within 0.1 s"
            hang.set()

    asyncio.run(story())


def test_a_serve_without_a_list_is_asked_its_probe_path_or_for_a_connection_and_nothing_else() -> None:
    async def story() -> None:
        async with Engine() as engine:
            running = engine.running()
            bare = replace(running.serve, identity=ServeIdentity.NONE, health=None)
            asked = HttpProbe(collect)
            assert await asked.models(replace(running, serve=bare)) == Listing(())
            assert engine.asked == [], "a connection is no request"
            probed = replace(running, serve=replace(bare, probe="/ping"))
            assert await asked.models(probed) == Listing(None, miss="it answered 404")
            engine.answers["/ping"] = 200, b"pong"
            assert await asked.models(probed) == Listing(())
            assert set(engine.asked) == {"/ping"}
        assert (await asked.models(replace(running, serve=bare))).miss.startswith("nothing listens on port")

    asyncio.run(story())


def test_what_a_serve_is_asked_is_said_in_words() -> None:
    none = Serve(name="a", identity=ServeIdentity.NONE)
    asked = (Serve(name="a"), none, replace(none, probe="/p"), replace(none, health=None))
    assert [question(one) for one in asked] == [
        "GET /v1/models", "GET /health", "GET /p", "a connection",
    ]  # fmt: skip
