"""What a client sees while its model loads: `front_door.loading`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import anthropic
import openai
import pytest
from openai.lib.streaming.chat import ChunkEvent, ContentDeltaEvent
from tests.scenarios.caller import Talk, ask, errors, story
from tests.scenarios.plane import Plane, running, serve

from stoker_lab.testing.script.script import Script

SLOW = Script(ready_after=2.5)
SHARES = 'printf "Loading safetensors checkpoint shards:  40%% Completed | 2/5"; exec "$@"'
"""Prints what vLLM prints while it loads."""


def telling(name: str, script: Script = SLOW) -> str:
    return serve(name, cmd=["sh", "-c", SHARES, "sh", *replace(script, id=name).command("{port}")])


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    with running(
        *(telling(name) for name in ("sdk", "other", "plain", "anthropic", "queue")),
        serve("broken", Script(never_ready=True), ready_timeout="2s"),
        front_door='loading = "reasoning"\ncommit_after = "30s"',
    ) as plane:
        yield plane


@story
async def test_the_openai_sdk_gets_lines_of_thinking_then_the_answer_alone_and_its_usage(plane: Plane) -> None:
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{plane.port}/v1", api_key="none", max_retries=0) as sdk:
        content, thinking, chunks = "", [], []
        asked = {"messages": [{"role": "user", "content": "one two three script: tokens=4"}], "max_tokens": 400}
        async with sdk.chat.completions.stream(
            model="sdk",
            **asked,
            stream_options={"include_usage": True},  # type: ignore[arg-type]
        ) as stream:
            async for event in stream:
                if isinstance(event, ContentDeltaEvent):
                    content += event.delta
                elif isinstance(event, ChunkEvent):
                    chunks.append(event.chunk)
                    thinking += [
                        text
                        for choice in event.chunk.choices
                        if (text := (choice.delta.model_extra or {}).get("reasoning_content"))
                    ]
            final = await stream.get_final_completion()
        assert thinking, "nothing was said while it loaded"
        assert "sdk is loading, 40 % (1 s)\n" in thinking
        assert all(line.startswith("sdk ") and line.endswith(" s)\n") for line in thinking)
        [choice] = final.choices
        assert choice.message.role == "assistant"
        assert choice.message.content == content == "tok0 tok1 tok2 tok3"
        whole = await sdk.chat.completions.create(model="sdk", **asked)  # type: ignore[call-overload]
        assert final.usage == whole.usage, "the lines cost nothing"
        decision = plane.decision(chunks[0].id.removeprefix("chatcmpl-"))
        assert (decision["output_tokens"], decision["outcome"]) == (4, "served")
        assert decision["ttft"] > 2, "the lines are not the first token"


@story
async def test_a_chat_client_without_a_stream_gets_the_answer_and_nothing_else(plane: Plane) -> None:
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{plane.port}/v1", api_key="none", max_retries=0) as sdk:
        found = await sdk.chat.completions.create(
            model="plain", messages=[{"role": "user", "content": "hi"}], max_tokens=2
        )
        assert found.choices[0].message.content == "tok0 tok1"
        assert not (found.choices[0].message.model_extra or {}).get("reasoning_content")


@story
async def test_an_anthropic_client_gets_no_thinking_that_nobody_signed(plane: Plane) -> None:
    async with anthropic.AsyncAnthropic(base_url=f"http://127.0.0.1:{plane.port}", api_key="none") as sdk:
        async with sdk.messages.stream(
            model="anthropic", messages=[{"role": "user", "content": "hi"}], max_tokens=2
        ) as stream:
            final = await stream.get_final_message()
        assert [block.type for block in final.content] == ["text"]


@pytest.mark.parametrize("dialect", ["responses", "completions"])
@story
async def test_other_dialects_get_their_answer_alone(plane: Plane, dialect: str) -> None:
    async with Talk(plane, "other", dialect=dialect, stream=True) as stream:
        assert (await stream.text()).startswith("tok0")


@story
async def test_a_client_that_waits_for_another_model_is_told_so(plane: Plane) -> None:
    assert (await ask(plane, "other")).status == 200
    async with Talk(plane, "other", "script: gap=0.1 tokens=25", stream=True) as busy:
        await busy.event()
        async with Talk(plane, "queue", stream=True) as waiting:
            first = await waiting.event()
            line = first.json()["choices"][0]["delta"]["reasoning_content"]
            assert line.startswith(("queue waits to be loaded (", "queue waits for requests of other to end ("))
            rest = await waiting.rest()
        assert rest[-1].data == "[DONE]"


@story
async def test_a_load_that_fails_after_a_line_is_one_error_event(plane: Plane) -> None:
    async with Talk(plane, "broken", stream=True) as stream:
        assert (await stream.opened()).status == 200
        found = await stream.rest()
        assert found[0].json()["choices"][0]["delta"]["reasoning_content"].startswith("broken is loading (")
        [error] = errors(found, "chat")
        assert "was not ready within 2 s" in error["message"]


@story
async def test_a_loaded_model_answers_as_ever(plane: Plane) -> None:
    assert (await ask(plane, "other")).status == 200
    async with Talk(plane, "other", "script: first_event_after=1.5 tokens=2", stream=True) as stream:
        found = await stream.rest()
        assert not any("reasoning_content" in event.data for event in found)
        assert not any(event.comment for event in found), "commit_after has not come"


@story
async def test_off_says_nothing_until_the_first_byte_and_ping_pings() -> None:
    door = 'loading = "off"\ncommit_after = "200ms"\nkeep_alive = "200ms"'
    with running(serve("slow", Script(ready_after=1.5)), front_door=door) as plane:
        began = time.monotonic()
        async with Talk(plane, "slow", stream=True) as stream:
            assert (await stream.opened()).status == 200
            assert time.monotonic() - began > 1.4
            assert not any(event.comment for event in await stream.rest())
        plane.write(plane.config.read_text().replace('loading = "off"', 'loading = "ping"'))
        assert plane.admin("reload")[0] == 200
        assert plane.admin("unload", serve="slow")[0] == 200
        async with Talk(plane, "slow", stream=True) as stream:
            assert (await stream.event()).comment == "ping"
            await stream.rest()
