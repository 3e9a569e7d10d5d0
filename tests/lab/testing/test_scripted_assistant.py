"""The scripted assistant: what it knows, in each dialect, and that its counts agree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from stoker.domain.answer import StopReason
from stoker.domain.dialect import Dialect
from stoker.domain.lease import Target
from stoker_lab.requests.client import ModelClient, ModelReply
from stoker_lab.testing.script.assistant import TOKEN, instance
from stoker_lab.testing.script.script import Script
from stoker_lab.testing.server import ScriptedServer

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": WEATHER}}


def ask(document: Mapping[str, Any], dialect: Dialect = Dialect.CHAT, **script: Any) -> ModelReply:
    async def run() -> ModelReply:
        async with ScriptedServer(Script(assistant=True, **script)) as server:
            talk = ModelClient(Target("127.0.0.1", server.port, "", "scripted"), dialect)
            return await talk.ask(document)

    return asyncio.run(run())


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Repeat these words exactly, and write nothing else: Größe 東京 🙂", "Größe 東京 🙂"),
        ("What is 3 + 4? Answer with the number only.", "7"),
        ("Answer with one word: what is the capital of Norway?", "Oslo"),
        ("Write the numbers from 1 to 5, separated by spaces.", "1 2 3 4 5"),
        ("The secret word of Anna is kite. What is the secret word of Anna?", "kite"),
        ("Say hello.", "Hello!"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_it_answers_as_a_good_model_would_and_counts_what_it_says(asked: str, answer: str, stream: bool) -> None:
    heard = ask(chat(asked, stream=stream, stream_options={"include_usage": True} if stream else None))
    assert (heard.text, heard.answer.stop) == (answer, StopReason.END)
    assert heard.timing.tokens.output == -(-len(answer) // TOKEN)


@pytest.mark.parametrize("stream", [False, True])
def test_it_calls_several_tools_at_once_and_tells_what_they_said(stream: bool) -> None:
    asked = chat("What is the weather in Paris and in Rome?", tools=[TOOL], stream=stream)
    heard = ask(asked, thinks=True)
    assert [json.loads(call.arguments)["city"] for call in heard.calls] == ["Paris", "Rome"]
    assert len({call.id for call in heard.calls}) == 2
    assert heard.thinking
    told = {"role": "tool", "tool_call_id": "c", "content": '{"temperature": 17}'}
    assert "17" in ask({"messages": [*asked["messages"], told], "tools": [TOOL]}).text
    assert ask(asked | {"tool_choice": "none"}).calls == []
    forced = ask(chat("Say hello.", tools=[TOOL], tool_choice="required"))
    assert [call.name for call in forced.calls] == ["get_weather"]


def test_it_thinks_unless_it_is_asked_not_to() -> None:
    assert ask(chat("Say hello."), thinks=True).thinking
    assert not ask(chat("Say hello.", chat_template_kwargs={"enable_thinking": False}), thinks=True).thinking
    cut = ask(chat("Say hello.", max_tokens=3), thinks=True)
    assert (cut.text, len(cut.thinking), cut.answer.stop) == ("", 3 * TOKEN, StopReason.LENGTH)


@pytest.mark.parametrize(
    ("dialect", "document"),
    [
        (Dialect.CHAT, chat("Write the numbers from 1 to 60.", max_tokens=8)),
        (Dialect.MESSAGES, chat("Write the numbers from 1 to 60.", max_tokens=8)),
        (Dialect.RESPONSES, {"input": "Write the numbers from 1 to 60.", "max_output_tokens": 8}),
    ],
)
def test_each_dialect_is_cut_where_it_is_asked_to(dialect: Dialect, document: Mapping[str, Any]) -> None:
    heard = ask(document, dialect)
    assert (len(heard.text), heard.answer.stop, heard.timing.tokens.output) == (8 * TOKEN, StopReason.LENGTH, 8)


def test_it_stops_at_a_marker_and_refuses_what_it_cannot_take() -> None:
    heard = ask(chat("Repeat exactly: alpha END7 omega", stop=["END7"]))
    assert heard.text == "alpha "
    assert ask(chat("word " * 5000), context=4096).timing.status == 400
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    refused = ask({"messages": [{"role": "user", "content": [picture]}]})
    assert (refused.timing.status, refused.error_message) == (400, "this model takes text only")


def test_a_form_gets_the_plainest_value_that_fits() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}, "ok": {"type": "boolean"},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 2},
            "sum": {"anyOf": [{"type": "null"}, {"type": "number"}]}, "left_out": {"type": "string"},
        },
        "required": ["name", "age", "ok", "tags", "sum"],
    }  # fmt: skip
    assert instance(schema) == {"name": "Ada", "age": 18, "ok": True, "tags": ["a", "a"], "sum": None}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    assert json.loads(ask(chat("Fill it in.", response_format=form)).text) == instance(schema)
