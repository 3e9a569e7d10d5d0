"""The embedded llama.cpp, judged as the scripted serves are: what it leaves out of its own dialects is added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ollama
import openresponses_types as schema
import pytest
from anthropic.types import Message, MessageTokensCount, RawMessageStreamEvent
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from tests.scenarios.conformance.stage import ask, judge, stream
from tests.scenarios.plane import Plane, llama, running

pytestmark = pytest.mark.llama
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: dict[str, Any] = {"name": "get_weather", "description": "Get the weather"}
TASKS = pytest.mark.parametrize("task", ["Who are you?", "What is the weather in Paris?"])


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with running(llama("spark")) as plane:
        yield plane


def asked(task: str) -> dict[str, Any]:
    return {"model": "spark", "messages": [{"role": "user", "content": task}], "temperature": 0, "max_tokens": 64}


@TASKS
def test_chat(plane: Plane, task: str) -> None:
    tools = [{"type": "function", "function": WEATHER | {"parameters": CITY}}]
    body = asked(task) | {"tools": tools, "stream_options": {"include_usage": True}}
    judge(ChatCompletion, ask(plane, "/v1/chat/completions", body | {"logprobs": True, "top_logprobs": 2}))
    *events, _ = stream(plane, "/v1/chat/completions", body)
    assert [judge(ChatCompletionChunk, event.data) for event in events]
    judge(ollama.ChatResponse, ask(plane, "/api/chat", asked(task) | {"tools": tools, "stream": False}))
    judge(Completion, ask(plane, "/v1/completions", {"model": "spark", "prompt": task, "max_tokens": 8}))


@TASKS
def test_messages(plane: Plane, task: str) -> None:
    body = asked(task) | {"tools": [WEATHER | {"input_schema": CITY}]}
    whole = judge(Message, ask(plane, "/v1/messages", body))
    found = [event.data for event in stream(plane, "/v1/messages", body) if event.data["type"] != "ping"]
    events = [judge(RawMessageStreamEvent, event) for event in found]
    started = [event.content_block.type for event in events if event.type == "content_block_start"]
    assert started == [block.type for block in whole.content]
    assert judge(MessageTokensCount, ask(plane, "/v1/messages/count_tokens", body)).input_tokens > 0


@TASKS
def test_responses(plane: Plane, task: str) -> None:
    tools = [{"type": "function", "parameters": CITY, **WEATHER}]
    body = {"model": "spark", "input": task, "temperature": 0, "tools": tools}
    whole = ask(plane, "/v1/responses", body)
    judge(Response, whole)
    judge(schema.ResponseResource, whole)
    assert [judge(ResponseStreamEvent, event.data) for event in stream(plane, "/v1/responses", body)]
