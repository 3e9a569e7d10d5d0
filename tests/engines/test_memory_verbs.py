"""Sleeping and waking by the engines' own verbs, in their own order, and failures that say what was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stoker.domain.lease import Target
from stoker.engines import sleep_api
from stoker.engines.sleep_api import VerbFailed
from stoker.http import client
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

Story = Callable[[ScriptedServer, Target], Coroutine[Any, Any, None]]


def told(script: Script, story: Story) -> list[str]:
    """The paths that were asked for, in order."""

    async def main() -> list[str]:
        async with ScriptedServer(script) as server:
            await story(server, Target(server.host, server.port, key=script.api_key))
            return [request.path for request in server.requests]

    return asyncio.run(main())


async def song(address: Target) -> Any:
    answer = await client.ask(address, "/v1/completions", {"prompt": "x", "max_tokens": 3})
    return answer.json()["choices"][0]["text"]


@pytest.mark.parametrize(
    ("engine", "level", "paths"),
    [
        ("vllm", 1, ["/sleep?level=1&sleep_level=1", "/wake_up"]),
        (
            "vllm", 2,
            ["/sleep?level=2&sleep_level=2", "/wake_up?tags=weights", "/collective_rpc", "/wake_up?tags=kv_cache"],
        ),
        ("sglang", 1, ["/release_memory_occupation", "/resume_memory_occupation"]),
    ],
)  # fmt: skip
def test_it_gives_its_memory_back_and_sings_the_same_song_after_waking(
    engine: str, level: int, paths: list[str]
) -> None:
    async def story(server: ScriptedServer, address: Target) -> None:
        before = await song(address)
        await sleep_api.sleep(address, engine, level)
        assert server.ballast.megabytes == 0
        await sleep_api.wake(address, engine, level)
        assert server.ballast.megabytes == 2
        assert await song(address) == before

    asked = told(Script(engine=engine, memory_mb=2, api_key="sesame"), story)
    assert [path for path in asked if not path.startswith("/v1")] == paths


def test_a_200_is_believed_here_and_so_its_caller_measures() -> None:
    async def story(server: ScriptedServer, address: Target) -> None:
        await sleep_api.sleep(address, "vllm", 1)
        assert server.ballast.megabytes == 2

    told(Script(engine="vllm", memory_mb=2, sleep_frees=False), story)


@pytest.mark.parametrize(("engine", "needs"), [("vllm", "--enable-sleep-mode"), ("sglang", "--enable-memory-saver")])
def test_an_engine_that_was_started_without_the_verbs_is_named_with_what_it_lacks(engine: str, needs: str) -> None:
    async def story(server: ScriptedServer, address: Target) -> None:
        for verb in (sleep_api.sleep, sleep_api.wake):
            with pytest.raises(VerbFailed, match=f"answered 404: the engine runs without `{needs}`"):
                await verb(address, engine, 1)

    told(Script(engine=engine, can_sleep=False), story)


def test_a_refusal_says_what_was_answered() -> None:
    async def story(server: ScriptedServer, address: Target) -> None:
        with pytest.raises(VerbFailed, match=r"POST /sleep\?level=1&sleep_level=1 answered 503: .*Loading model"):
            await sleep_api.sleep(address, "vllm", 1)

    told(Script(engine="vllm", never_ready=True), story)


def test_no_answer_is_a_failure_too() -> None:
    async def main() -> None:
        async with ScriptedServer(Script()) as server:
            nobody = Target(server.host, server.port)
        with pytest.raises(VerbFailed, match="nothing listens on port"):
            await sleep_api.wake(nobody, "vllm", 1)
        assert await sleep_api.is_asleep(nobody, "vllm") is None

    asyncio.run(main())


@pytest.mark.parametrize(("engine", "level"), [("llama.cpp", 1), ("openai", 1), ("vllm", 3), ("sglang", 2)])
def test_what_has_no_such_verb_is_asked_nothing(engine: str, level: int) -> None:
    async def story(server: ScriptedServer, address: Target) -> None:
        for verb in (sleep_api.sleep, sleep_api.wake):
            with pytest.raises(VerbFailed, match=f"engine {engine} cannot (sleep|wake)"):
                await verb(address, engine, level)

    assert told(Script(), story) == []


def test_what_an_engine_says_of_its_sleep_is_told_and_silence_is_unknown() -> None:
    async def story(server: ScriptedServer, address: Target) -> None:
        assert await sleep_api.is_asleep(address, "vllm") is False
        await sleep_api.sleep(address, "vllm", 1)
        assert await sleep_api.is_asleep(address, "vllm") is True
        server.script = Script(engine="vllm", can_sleep=False)
        assert await sleep_api.is_asleep(address, "vllm") is None
        assert await sleep_api.is_asleep(address, "sglang") is None

    told(Script(engine="vllm"), story)


def test_llama_cpp_tells_it_with_its_properties() -> None:
    async def story(server: ScriptedServer, address: Target) -> None:
        assert await sleep_api.is_asleep(address, "llama.cpp") is False

    assert told(Script(), story) == ["/props"]
