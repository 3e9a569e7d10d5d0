"""Every client at every serve, through the official SDKs: the real llama.cpp asked in each of its dialects, and servers
that refuse what Anthropic and OpenAI refuse, in their places.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest
from tests.scenarios.caller import story
from tests.scenarios.plane import Plane, llama, running, serve

from stoker_lab.testing.client import RawClient
from stoker_lab.testing.script.script import Script

WHO = "Who are you?"
SPOKEN = ("chat", "messages", "responses")
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PNG = base64.b64encode(
    base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==")
).decode()
SESSION = [
    {
        "blocks": [
            {"type": "thinking", "text": "I need the weather.\nThen I answer."},
            {"type": "text", "text": "Let me look."},
            {"type": "call", "name": "get_weather", "arguments": {"city": "Zürich", "days": 1.0}},
            {"type": "call", "name": "get_weather", "arguments": {"city": "Bern"}},
        ],
        "usage": {"input": 1000, "cached": 800, "output": 60},
    },
    {"blocks": [{"type": "text", "text": "Sun."}], "usage": {"input": 1100, "cached": 1000, "output": 2}},
]
"""What the serves in the clouds' places answer: two calls at once, then a word."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Plane]:
    strict = {
        "messages": Script(answers=SESSION, strict_messages=True),
        "chat": Script(answers=SESSION, strict_chat=True, quirks="interleave"),
        "responses": Script(answers=SESSION),
    }
    with running(
        *(llama(f"llama-{dialect}", "ember", slot=None, dialects=[dialect]) for dialect in SPOKEN),
        *(
            serve(f"cloud-{name}", script, slot=None, dialects=[name], translation={"cloud": name == "messages"})
            for name, script in strict.items()
        ),
        front_door='commit_after = "500ms"\nkeep_alive = "1s"',
        keeps_engines=True,
    ) as plane:
        yield plane


@asynccontextmanager
async def sdks(plane: Plane) -> AsyncIterator[tuple[openai.AsyncOpenAI, anthropic.AsyncAnthropic]]:
    url = f"http://127.0.0.1:{plane.port}"
    async with (
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as ours,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as theirs,
    ):
        yield ours, theirs


def user(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


FUNCTION = {"name": "get_weather", "description": "The weather of a city.", "parameters": WEATHER}
TOOLS: dict[str, list[Any]] = {
    "chat": [{"type": "function", "function": FUNCTION}],
    "messages": [{"name": "get_weather", "description": "The weather of a city.", "input_schema": WEATHER}],
    "responses": [{"type": "function", "strict": False, **FUNCTION}],
}


# -- the real llama.cpp --------------------------------------------------------------------------------------------


@pytest.mark.llama
@story
async def test_each_client_gets_the_same_words_from_a_serve_of_each_dialect_whole_and_streamed(plane: Plane) -> None:
    async with sdks(plane) as (ours, theirs):
        for spoken in SPOKEN:
            model = f"llama-{spoken}"
            exact: dict[str, Any] = {"model": model, "temperature": 0}
            said = []
            chat = await ours.chat.completions.create(messages=user(WHO), max_tokens=40, **exact)
            said.append(chat.choices[0].message.content)
            async with ours.chat.completions.stream(messages=user(WHO), max_tokens=40, **exact) as chunks:
                said.append((await chunks.get_final_completion()).choices[0].message.content)
            response = await ours.responses.create(input=WHO, max_output_tokens=40, **exact)
            said.append(response.output_text)
            if spoken != "responses":  # llama.cpp's own stream names no content_index; by default it is not passed on
                async with ours.responses.stream(input=WHO, max_output_tokens=40, **exact) as items:
                    said.append((await items.get_final_response()).output_text)
            message = await theirs.messages.create(
                model=model, max_tokens=40, messages=user(WHO), extra_body={"temperature": 0}
            )
            said.append(message.content[0].text)  # type: ignore[union-attr]
            async with theirs.messages.stream(
                model=model, max_tokens=40, messages=user(WHO), extra_body={"temperature": 0}
            ) as events:
                said.append(await events.get_final_text())
            assert said == ["I am ember, a tiny language model that tests Stoker."] * len(said)
            assert chat.usage is not None
            assert response.usage is not None
            counted = chat.usage.prompt_tokens
            assert (response.usage.input_tokens, _whole_input(message.usage)) == (counted, counted)
            count = await theirs.messages.count_tokens(model=model, messages=user(WHO))
            assert count.input_tokens == counted


def _whole_input(usage: anthropic.types.Usage) -> int:
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


@pytest.mark.llama
@story
async def test_a_tool_is_called_and_its_result_taken_by_a_serve_of_each_dialect(plane: Plane) -> None:
    """Forced, so that even a tiny model calls: what is tried is the way of the call, not the model."""
    async with sdks(plane) as (ours, theirs):
        for spoken in SPOKEN:
            model = f"llama-{spoken}"
            exact: dict[str, Any] = {"model": model, "temperature": 0}
            turns = user("What is the weather in Paris?")
            chat = await ours.chat.completions.create(
                messages=turns, tools=TOOLS["chat"], tool_choice="required", max_tokens=100, **exact
            )
            (call,) = chat.choices[0].message.tool_calls or []
            assert chat.choices[0].finish_reason == "tool_calls"
            assert call.type == "function"
            assert json.loads(call.function.arguments) == {"city": "Paris"}
            answer = chat.choices[0].message.model_dump(exclude_none=True)
            turns = [*turns, answer, {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"}]
            assert (
                await ours.chat.completions.create(messages=turns, tools=TOOLS["chat"], max_tokens=9, **exact)
            ).usage

            turns = user("What is the weather in Paris?")
            async with theirs.messages.stream(
                model=model, max_tokens=100, messages=turns, tools=TOOLS["messages"], tool_choice={"type": "any"},
                extra_body={"temperature": 0},
            ) as events:  # fmt: skip
                message = await events.get_final_message()
            (use,) = message.content
            assert (message.stop_reason, use.type) == ("tool_use", "tool_use")
            assert use.input == {"city": "Paris"}  # type: ignore[union-attr]
            result = {"type": "tool_result", "tool_use_id": use.id, "content": "no such city", "is_error": True}  # type: ignore[union-attr]
            turns = [*turns, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
            assert (await theirs.messages.create(model=model, max_tokens=9, messages=turns)).content

            async with ours.responses.stream(
                input="What is the weather in Paris?", tools=TOOLS["responses"], tool_choice="required",
                max_output_tokens=100, **exact,
            ) as items:  # fmt: skip
                response = await items.get_final_response()
            (item,) = response.output
            assert item.type == "function_call"
            assert json.loads(item.arguments) == {"city": "Paris"}
            given: list[Any] = [*user(WHO), *response.output]
            given.append({"type": "function_call_output", "call_id": item.call_id, "output": "18 degrees"})
            assert (await ours.responses.create(input=given, max_output_tokens=16, **exact)).output


@pytest.mark.llama
@story
async def test_the_older_clients_are_answered_by_a_serve_of_each_dialect(plane: Plane) -> None:
    async with sdks(plane) as (ours, _), httpx.AsyncClient(base_url=f"http://127.0.0.1:{plane.port}") as old:
        for spoken in SPOKEN:
            model = f"llama-{spoken}"
            text = await ours.completions.create(model=model, prompt=WHO, max_tokens=40, temperature=0)
            assert text.choices[0].text == "I am ember, a tiny language model that tests Stoker."
            asked = {"model": model, "messages": user(WHO), "options": {"temperature": 0}}
            lines = [json.loads(line) for line in (await old.post("/api/chat", json=asked)).text.splitlines()]
            assert "".join(line["message"]["content"] for line in lines) == text.choices[0].text
            assert (lines[-1]["done"], lines[-1]["done_reason"]) == (True, "stop")
            asked = {"model": model, "prompt": WHO, "stream": False, "options": {"temperature": 0}}
            assert (await old.post("/api/generate", json=asked)).json()["response"] == text.choices[0].text
        assert {entry["name"] for entry in (await old.get("/api/tags")).json()["models"]} >= {"llama-chat"}


# -- in the clouds' places -------------------------------------------------------------------------------------------


@story
async def test_a_session_with_two_calls_at_once_and_thinking_by_each_client_at_each_serve(plane: Plane) -> None:
    """The strict servers refuse a history that is not right: ids, order, signatures, results, roles."""
    async with sdks(plane) as (ours, theirs):
        for spoken in SPOKEN:
            await _chat_session(ours, f"cloud-{spoken}")
            await _messages_session(theirs, f"cloud-{spoken}")
            await _responses_session(ours, f"cloud-{spoken}")


CITIES = [{"city": "Zürich", "days": 1.0}, {"city": "Bern"}]


async def _chat_session(ours: openai.AsyncOpenAI, model: str) -> None:
    turns: list[Any] = [{"role": "system", "content": "Be brief."}, *user("Weather?")]
    async with ours.chat.completions.stream(
        model=model, messages=turns, tools=TOOLS["chat"], stream_options={"include_usage": True}
    ) as chunks:
        streamed = await chunks.get_final_completion()
    whole = await ours.chat.completions.create(model=model, messages=turns, tools=TOOLS["chat"])
    for completion in (streamed, whole):
        message = completion.choices[0].message
        assert completion.choices[0].finish_reason == "tool_calls"
        assert message.content == "Let me look."
        assert message.reasoning_content == "I need the weather.\nThen I answer."  # type: ignore[attr-defined,union-attr]
        calls = message.tool_calls or []
        assert [json.loads(call.function.arguments) for call in calls] == CITIES  # type: ignore[union-attr]
        assert completion.usage is not None
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (1000, 60)
        assert completion.usage.prompt_tokens_details is not None
        assert completion.usage.prompt_tokens_details.cached_tokens == 800
        history = [*turns, message.model_dump(exclude_none=True)]
        history += [{"role": "tool", "tool_call_id": call.id, "content": "sun"} for call in calls]
        last = await ours.chat.completions.create(model=model, messages=history, tools=TOOLS["chat"])
        assert (last.choices[0].message.content, last.choices[0].finish_reason) == ("Sun.", "stop")


async def _messages_session(theirs: anthropic.AsyncAnthropic, model: str) -> None:
    turns = user("Weather?")
    asked: dict[str, Any] = {"model": model, "max_tokens": 4000, "tools": TOOLS["messages"], "system": "Be brief."}
    async with theirs.messages.stream(messages=turns, **asked) as events:
        streamed = await events.get_final_message()
    whole = await theirs.messages.create(messages=turns, **asked)
    for message in (streamed, whole):
        thinking, text, first, second = message.content
        assert thinking.thinking == "I need the weather.\nThen I answer."  # type: ignore[union-attr]
        assert thinking.signature  # type: ignore[union-attr]
        assert text.text == "Let me look."  # type: ignore[union-attr]
        assert [first.input, second.input] == CITIES  # type: ignore[union-attr]
        assert (message.stop_reason, message.usage.output_tokens) == ("tool_use", 60)
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (200, 800)
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        results = [
            {"type": "tool_result", "tool_use_id": first.id, "content": "no such city", "is_error": True},  # type: ignore[union-attr]
            {"type": "tool_result", "tool_use_id": second.id, "content": [{"type": "text", "text": "see"}, image]},  # type: ignore[union-attr]
            {"type": "text", "text": "Well?"},
        ]
        history = [*turns, {"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        last = await theirs.messages.create(messages=history, **asked)
        assert (last.content[0].text, last.stop_reason) == ("Sun.", "end_turn")  # type: ignore[union-attr]


async def _responses_session(ours: openai.AsyncOpenAI, model: str) -> None:
    turns: list[Any] = user("Weather?")
    asked: dict[str, Any] = {"model": model, "tools": TOOLS["responses"], "instructions": "Be brief."}
    async with ours.responses.stream(input=turns, **asked) as items:
        streamed = await items.get_final_response()
    whole = await ours.responses.create(input=turns, **asked)
    for response in (streamed, whole):
        reasoning, message, *calls = response.output
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
        assert response.output_text == "Let me look."
        assert [json.loads(call.arguments) for call in calls] == CITIES  # type: ignore[union-attr]
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (1000, 800)
        # as Codex does: the text of the thinking is not sent back, what is sealed is
        kept = {"type": "reasoning", "id": reasoning.id, "summary": []}
        kept["encrypted_content"] = reasoning.encrypted_content  # type: ignore[union-attr]
        history = [*turns, kept, message, *calls]
        for call in calls:
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": "sun"})  # type: ignore[union-attr]
        last = await ours.responses.create(input=history, **asked)
        assert (last.output_text, last.status) == ("Sun.", "completed")


@story
async def test_a_conversation_that_changes_from_a_local_model_to_claude_leaves_the_local_thinking_behind(
    plane: Plane,
) -> None:
    """https://github.com/anthropics/claude-code/issues/71111: a signature that is not Anthropic's is a 400."""
    async with sdks(plane) as (_, theirs):
        asked: dict[str, Any] = {"max_tokens": 4000, "tools": TOOLS["messages"]}
        first = await theirs.messages.create(model="cloud-chat", messages=user("Weather?"), **asked)
        assert first.content[0].signature.startswith("stoker1.")  # type: ignore[union-attr]
        calls = [block for block in first.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call.id, "content": "sun"} for call in calls]
        history = [*user("Weather?"), {"role": "assistant", "content": first.content}]
        history.append({"role": "user", "content": results})
        reply = await theirs.messages.with_raw_response.create(model="cloud-messages", messages=history, **asked)
        assert (await reply.parse()).content[0].text == "Sun."  # type: ignore[union-attr]
        assert "dropped:thinking" in (reply.headers.get("x-stoker-translation") or "")


@story
async def test_what_a_serve_refuses_reaches_each_client_as_its_own_kind_of_error(plane: Plane) -> None:
    async with sdks(plane) as (ours, theirs):
        broken: list[Any] = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]
        with pytest.raises(openai.BadRequestError, match="data URI"):
            await ours.chat.completions.create(model="cloud-messages", messages=broken)
        image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/secret.png"}}
        with pytest.raises(anthropic.BadRequestError, match="gives an image or a file by its address"):
            await theirs.messages.create(model="cloud-chat", max_tokens=9, messages=user([image]))
        with pytest.raises(openai.BadRequestError, match="previous_response_id"):
            await ours.responses.create(model="cloud-chat", input="hi", previous_response_id="resp_1")
        with pytest.raises(anthropic.APIStatusError) as caught:
            await theirs.messages.create(
                model="cloud-chat", max_tokens=9, messages=user('script: error_status=503 retry_after="7"')
            )
        assert caught.value.response.headers["retry-after"] == "7"
        assert caught.value.response.headers["x-should-retry"] == "true"
        with pytest.raises(anthropic.APIStatusError, match="error"):
            async with theirs.messages.stream(
                model="cloud-chat", max_tokens=9, messages=user("script: error_event_after=2")
            ) as events:
                await events.get_final_message()


@story
async def test_a_silent_serve_is_pinged_over_in_the_clients_own_way(plane: Plane) -> None:
    """https://github.com/PostHog/code/issues/3092: the client's connection must not be taken for dead."""
    async with RawClient(plane.port, timeout=30) as client:
        body = {"model": "cloud-chat", "max_tokens": 9, "stream": True, "messages": user("script: first_event_after=3")}
        reply = await client.ask("POST", "/v1/messages", body)
    names = [line.partition(b": ")[2] for line in reply.body.splitlines() if line.startswith(b"event: ")]
    assert names[:2] == [b"ping", b"ping"]
    assert names[-1] == b"message_stop"
