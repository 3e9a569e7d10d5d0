"""The official SDKs fold what the scripted server says, streamed and not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from openai.types.responses import ResponseCompletedEvent, ResponseIncompleteEvent

from stoker_lab.testing.dialects.vectors import embedding
from stoker_lab.testing.scripted import Script, ScriptedServer

TEXT = "tok0 tok1 tok2 tok3"
SCRIPT = Script(id="m", tokens=4, prompt_tokens=11, cached_tokens=5)
ASK = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def by_openai(script: Script = SCRIPT) -> AsyncIterator[tuple[Any, ScriptedServer]]:
    async with (
        ScriptedServer(script) as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client,
    ):
        yield client, server


@asynccontextmanager
async def by_anthropic(script: Script = SCRIPT) -> AsyncIterator[Any]:
    async with (
        ScriptedServer(script) as server,
        anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        yield client


async def test_chat_whole() -> None:
    async with by_openai() as (client, _):
        reply = await client.chat.completions.create(model="m", messages=ASK)
    assert reply.choices[0].message.content == TEXT
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.total_tokens) == (11, 4, 15)
    assert reply.usage.prompt_tokens_details is not None
    assert reply.usage.prompt_tokens_details.cached_tokens == 5


async def test_chat_streamed_and_folded() -> None:
    async with (
        by_openai() as (client, _),
        client.chat.completions.stream(model="m", messages=ASK, stream_options={"include_usage": True}) as stream,
    ):
        folded = await stream.get_final_completion()
    assert folded.choices[0].message.content == TEXT
    assert folded.choices[0].finish_reason == "stop"
    assert folded.usage is not None
    assert folded.usage.total_tokens == 15


@pytest.mark.parametrize("asked", [True, False])
async def test_the_usage_chunk_comes_only_when_asked_for(asked: bool) -> None:
    async with by_openai() as (client, _):
        stream = await client.chat.completions.create(
            model="m", messages=ASK, stream=True, **({"stream_options": {"include_usage": True}} if asked else {})
        )
        chunks = [chunk async for chunk in stream]
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    without_choices = [chunk for chunk in chunks if not chunk.choices]
    assert [chunk.usage is not None for chunk in without_choices] == ([True] if asked else [])
    assert all(chunk.usage is None for chunk in chunks if chunk.choices)
    assert all(("usage" in chunk.model_fields_set) is asked for chunk in chunks)


async def test_a_limit_cuts_the_reply_and_says_so() -> None:
    async with by_openai() as (client, _):
        reply = await client.chat.completions.create(model="m", messages=ASK, max_completion_tokens=2)
    assert reply.choices[0].message.content == "tok0 tok1"
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 2


async def test_completions_whole_and_streamed() -> None:
    async with by_openai() as (client, _):
        reply = await client.completions.create(model="m", prompt="hello")
        stream = await client.completions.create(model="m", prompt="hello", stream=True)
        chunks = [chunk async for chunk in stream]
    assert reply.choices[0].text == TEXT
    assert "".join(chunk.choices[0].text for chunk in chunks) == TEXT
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("limit", [None, 2])
async def test_responses_whole_and_streamed_say_the_same(limit: int | None) -> None:
    limits = {} if limit is None else {"max_output_tokens": limit}
    async with by_openai() as (client, _):
        reply = await client.responses.create(model="m", input="hello", **limits)
        async with client.responses.stream(model="m", input="hello", **limits) as stream:
            events = [event async for event in stream]
        raw = [event async for event in await client.responses.create(model="m", input="hello", stream=True, **limits)]
    assert [event.sequence_number for event in raw] == list(range(len(raw)))
    last = events[-1]
    assert isinstance(last, ResponseCompletedEvent if limit is None else ResponseIncompleteEvent)
    assert reply.output_text == (TEXT if limit is None else "tok0 tok1")
    assert last.response.output_text == reply.output_text
    assert "".join(event.delta for event in raw if event.type == "response.output_text.delta") == reply.output_text
    assert reply.status == ("completed" if limit is None else "incomplete")
    assert reply.usage is not None
    assert last.response.usage == reply.usage
    assert reply.usage.total_tokens == 11 + (limit or 4)
    assert reply.usage.input_tokens_details.cached_tokens == 5


@pytest.mark.parametrize("form", [{"encoding_format": "float"}, {}])
async def test_embeddings_follow_from_the_text(form: dict[str, str]) -> None:
    async with by_openai() as (client, server):
        reply = await client.embeddings.create(model="m", input=["a", "b"], **form)
        assert server.requests[-1].json()["encoding_format"] == form.get("encoding_format", "base64")  # the SDK's own
    assert [one.embedding for one in reply.data] == [embedding("a", 8), embedding("b", 8)]
    assert embedding("a", 8) != embedding("b", 8)
    assert reply.usage.prompt_tokens == 11


async def test_an_openai_error_is_one_to_the_sdk() -> None:
    async with by_openai(Script(error_status=429, retry_after="7")) as (client, _):
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(model="m", messages=ASK)
    assert caught.value.response.headers["retry-after"] == "7"


async def test_an_error_event_is_an_error_to_the_openai_sdk() -> None:
    async with by_openai(Script(error_event_after=2)) as (client, _):
        stream = await client.chat.completions.create(model="m", messages=ASK, stream=True)
        seen: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                seen.append(chunk.choices[0].delta.content or "")

        with pytest.raises(openai.APIError, match="scripted failure"):
            await read()
    assert "".join(seen) == "tok0 tok1"


async def test_the_models_list() -> None:
    async with by_openai(Script(id="m", shown_id="other")) as (client, _):
        assert [model.id for model in (await client.models.list()).data] == ["other"]


async def test_messages_whole() -> None:
    async with by_anthropic() as client:
        message = await client.messages.create(model="m", max_tokens=100, messages=ASK)
    assert [block.text for block in message.content if block.type == "text"] == [TEXT]
    assert message.stop_reason == "end_turn"
    assert (message.usage.input_tokens, message.usage.cache_read_input_tokens, message.usage.output_tokens) == (6, 5, 4)


@pytest.mark.parametrize(("limit", "text", "stop"), [(100, TEXT, "end_turn"), (2, "tok0 tok1", "max_tokens")])
async def test_messages_streamed_and_folded(limit: int, text: str, stop: str) -> None:
    async with by_anthropic() as client, client.messages.stream(model="m", max_tokens=limit, messages=ASK) as stream:
        message = await stream.get_final_message()
    assert [block.text for block in message.content if block.type == "text"] == [text]
    assert message.stop_reason == stop
    assert message.usage.input_tokens == 6
    assert message.usage.output_tokens == len(text.split())


async def test_an_error_event_is_an_error_to_the_anthropic_sdk() -> None:
    async with by_anthropic(Script(error_event_after=2)) as client:
        stream = await client.messages.create(model="m", max_tokens=100, messages=ASK, stream=True)
        with pytest.raises(anthropic.APIStatusError, match="scripted failure"):
            await anext(event async for event in stream if event.type == "message_stop")


async def test_an_anthropic_error_has_its_form() -> None:
    async with by_anthropic(Script(error_status=529)) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(model="m", max_tokens=100, messages=ASK)
    assert json.loads(caught.value.response.content)["error"]["type"] == "overloaded_error"


async def test_tokens_are_counted_by_words() -> None:
    async with by_anthropic(Script()) as client:
        count = await client.messages.count_tokens(
            model="m", system="be kind", messages=[{"role": "user", "content": "one two three"}]
        )
    assert count.input_tokens == 5
