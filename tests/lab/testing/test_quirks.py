"""Each quirk shows what its name says, and nothing is lost by it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.lab.testing.richly import ASK, PATHS, calls, deltas, told

from stoker_lab.testing.client import RawClient
from stoker_lab.testing.script.quirks import QUIRKS
from stoker_lab.testing.scripted import Script, ScriptedServer

CHAT, RESPONSES, MESSAGES = PATHS["chat"], PATHS["responses"], PATHS["messages"]
TWO_CALLS: dict[str, Any] = {
    "blocks": [
        {"type": "call", "id": "a", "name": "first", "arguments": {"x": "one two three"}},
        {"type": "call", "id": "b", "name": "second", "arguments": {"y": "four five six"}},
    ],
}
ARGUMENTS = ['{"x": "one two three"}', '{"y": "four five six"}']
THOUGHT_AND_TEXT: dict[str, Any] = {
    "blocks": [{"type": "thinking", "text": "thinking hard"}, {"type": "text", "text": "Hi there, you."}],
}


def arguments(parts: list[dict[str, Any]]) -> str:
    return "".join(part["function"].get("arguments", "") for part in parts)


def finish(chunks: list[Any]) -> str:
    return next(one["choices"][0]["finish_reason"] for one in reversed(chunks) if one != "[DONE]" and one["choices"])


async def test_without_a_quirk() -> None:
    """What the others differ from."""
    chunks = await told(CHAT, TWO_CALLS)
    parts = calls(chunks)
    assert [part["index"] for part in parts] == [0] * 4 + [1] * 4
    assert parts[0] == {"index": 0, "id": "a", "type": "function", "function": {"name": "first", "arguments": ""}}
    assert parts[1] == {"index": 0, "function": {"arguments": '{"x": "o'}}
    assert [arguments(parts[:4]), arguments(parts[4:])] == ARGUMENTS
    assert finish(chunks) == "tool_calls"
    assert chunks[-1] == "[DONE]"
    assert deltas(chunks)[0] == {"role": "assistant", "content": ""}
    assert all("tool_calls" in delta for delta in deltas(chunks)[1:-1])


async def test_whole_call() -> None:
    parts = calls(await told(CHAT, TWO_CALLS, script="whole_call"))
    assert [(part["id"], part["function"]["name"]) for part in parts] == [("a", "first"), ("b", "second")]
    assert [part["function"]["arguments"] for part in parts] == ARGUMENTS


async def test_repeat_id() -> None:
    parts = calls(await told(CHAT, TWO_CALLS, script="repeat_id"))
    assert [part["id"] for part in parts] == ["a"] * 4 + ["b"] * 4
    assert [part["function"]["name"] for part in parts] == ["first"] * 4 + ["second"] * 4
    assert arguments(parts) == "".join(ARGUMENTS)


async def test_no_index() -> None:
    parts = calls(await told(CHAT, TWO_CALLS, script="no_index"))
    assert all("index" not in part for part in parts)
    assert arguments(parts) == "".join(ARGUMENTS)


async def test_same_index() -> None:
    parts = calls(await told(CHAT, TWO_CALLS, script="same_index"))
    assert {part["index"] for part in parts} == {0}
    assert [part["id"] for part in parts if "id" in part] == ["a", "b"]


async def test_interleave() -> None:
    parts = calls(await told(CHAT, TWO_CALLS, script="interleave"))
    assert [part["index"] for part in parts] == [0, 1] * 4
    assert [arguments(parts[::2]), arguments(parts[1::2])] == ARGUMENTS


async def test_late_name() -> None:
    parts = calls(await told(CHAT, TWO_CALLS, script="late_name"))
    assert parts[0] == {"index": 0, "id": "a", "type": "function", "function": {"arguments": ""}}
    assert parts[1] == {"index": 0, "function": {"name": "first", "arguments": '{"x": "o'}}
    assert arguments(parts) == "".join(ARGUMENTS)


async def test_late_name_without_arguments() -> None:
    bare = {"blocks": [{"type": "call", "name": "f", "arguments": ""}]}
    parts = calls(await told(CHAT, bare, script="late_name"))
    assert [part["function"] for part in parts] == [{"arguments": ""}, {"name": "f", "arguments": ""}]


async def test_null_calls() -> None:
    found = deltas(await told(CHAT, THOUGHT_AND_TEXT, script="null_calls"))
    assert len(found) > 3
    assert all(delta["tool_calls"] is None for delta in found[:-1])


async def test_stop_for_calls() -> None:
    assert finish(await told(CHAT, TWO_CALLS, script="stop_for_calls")) == "stop"
    (whole,) = await told(CHAT, TWO_CALLS, script="stop_for_calls", stream=False)
    assert whole["choices"][0]["finish_reason"] == "stop"


async def test_arguments_object() -> None:
    (whole,) = await told(CHAT, TWO_CALLS, script="arguments_object", stream=False)
    found = [call["function"]["arguments"] for call in whole["choices"][0]["message"]["tool_calls"]]
    assert found == list(map(json.loads, ARGUMENTS))


@pytest.mark.parametrize("stream", [True, False])
async def test_double_encoded(stream: bool) -> None:
    found = await told(CHAT, TWO_CALLS, script="double_encoded", stream=stream)
    parts = calls(found)[:5] if stream else found[0]["choices"][0]["message"]["tool_calls"][:1]
    assert arguments([part for part in parts if part.get("index", 0) == 0]) == json.dumps(ARGUMENTS[0])


async def test_together() -> None:
    found = deltas(await told(CHAT, THOUGHT_AND_TEXT, script="together"))
    assert [delta for delta in found if len(delta) == 2][1:] == [{"reasoning_content": " hard", "content": "Hi there"}]
    assert "".join(delta.get("reasoning_content", "") for delta in found) == "thinking hard"
    assert "".join(delta.get("content", "") for delta in found) == "Hi there, you."


async def test_first_content_with_role() -> None:
    found = deltas(await told(CHAT, {"blocks": THOUGHT_AND_TEXT["blocks"][1:]}, script="first_content_with_role"))
    assert found[:2] == [{"role": "assistant", "content": "Hi there"}, {"content": ", you."}]


async def test_empty_deltas() -> None:
    found = deltas(await told(CHAT, THOUGHT_AND_TEXT, script="empty_deltas"))[1:-1]
    assert found[:3] == [{"reasoning_content": "thinking"}, {"content": ""}, {}]
    assert found[1::3] == [{"content": ""}] * 4
    assert found[2::3] == [{}] * 4
    assert "".join(delta.get("content", "") for delta in found) == "Hi there, you."


async def test_usage_each() -> None:
    chunks = await told(CHAT, THOUGHT_AND_TEXT | {"usage": {"output": 10}}, script="usage_each")
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks[:-1]]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] == 10
    assert all(chunk["choices"] for chunk in chunks[:-1])  # no chunk more, it was not asked for


async def test_no_done() -> None:
    chunks = await told(CHAT, TWO_CALLS, script="no_done")
    assert "[DONE]" not in chunks
    assert finish(chunks) == "tool_calls"


async def test_only_done() -> None:
    answer = {"blocks": [*THOUGHT_AND_TEXT["blocks"], *TWO_CALLS["blocks"]]}
    events = await told(RESPONSES, answer, script="only_done")
    assert not [event for event in events if event["type"].endswith(".delta")]
    done = {event["type"]: event for event in events}
    assert done["response.output_text.done"]["text"] == "Hi there, you."
    assert done["response.function_call_arguments.done"]["arguments"] == ARGUMENTS[1]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


async def test_no_added() -> None:
    events = await told(RESPONSES, TWO_CALLS, script="no_added")
    assert not [event for event in events if event["type"].endswith(".added")]
    assert events[2]["type"] == "response.function_call_arguments.delta"


async def test_two_deltas() -> None:
    events = await told(MESSAGES, TWO_CALLS | {"usage": {"input": 9, "output": 10}}, script="two_deltas")
    first, second = (event for event in events if event["type"] == "message_delta")
    assert (first["delta"]["stop_reason"], second["delta"]["stop_reason"]) == (None, "tool_use")
    assert [(one["usage"]["input_tokens"], one["usage"]["output_tokens"]) for one in (first, second)] == [
        (9, 5),
        (9, 10),
    ]


async def test_no_ping() -> None:
    assert [event for event in await told(MESSAGES, TWO_CALLS) if event["type"] == "ping"]
    assert not [event for event in await told(MESSAGES, TWO_CALLS, script="no_ping") if event["type"] == "ping"]


def test_each_quirk_has_a_test() -> None:
    assert [name for name in QUIRKS if f"test_{name}" not in globals()] == []


async def test_an_answer_has_quirks_of_its_own() -> None:
    chunks = await told(CHAT, TWO_CALLS | {"quirks": ["whole_call"]}, script="no_done")
    assert len(calls(chunks)) == 2
    assert "[DONE]" not in chunks


@pytest.mark.parametrize("path", PATHS.values())
async def test_quirks_of_another_dialect_change_nothing(path: str) -> None:
    name = next(name for name, (dialect, _) in QUIRKS.items() if PATHS[dialect] != path)
    plain, odd = await told(path, TWO_CALLS), await told(path, TWO_CALLS, script=name)
    assert len(plain) == len(odd)


@pytest.mark.parametrize("path", PATHS.values())
async def test_tokens_may_have_quirks_too(path: str) -> None:
    plain = await told(path, None)
    odd = await told(path, None, script="no_ping,no_done,only_done")
    assert len(odd) < len(plain)
    (whole,) = await told(path, None, script="no_done", stream=False)
    assert "tok0 tok1" in json.dumps(whole)
    assert "tok19" in json.dumps(plain)
    assert "tok19" in json.dumps(odd)


async def test_a_request_may_ask_for_quirks() -> None:
    async with ScriptedServer(Script()) as server, RawClient(server.port) as client:
        body = {"messages": [{"role": "user", "content": "script: quirks=no_done tokens=2"}], "stream": True}
        assert b"[DONE]" not in (await client.ask("POST", CHAT, body)).body
        assert b"[DONE]" in (await client.ask("POST", CHAT, {"messages": ASK, "stream": True})).body
