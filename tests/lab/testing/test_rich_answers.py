"""A rich answer, in each dialect, is to the official SDKs what its script says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from tests.lab.testing.richly import ARGUMENTS, ASK, EVERYTHING, PATHS, deltas, told

from stoker_lab.testing.client import RawClient
from stoker_lab.testing.dialects.rich_messages import minted
from stoker_lab.testing.scripted import Script, ScriptedServer

THOUGHT, TEXT = EVERYTHING["blocks"][0]["text"], EVERYTHING["blocks"][2]["text"]
CUTS = [0, 1, 8]


def cut(size: int, **more: Any) -> dict[str, Any]:
    return EVERYTHING | {"cut": size} | more


@asynccontextmanager
async def by_openai(answer: Any, **script: Any) -> AsyncIterator[Any]:
    async with (
        ScriptedServer(Script(id="m", answers=[answer], **script)) as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client,
    ):
        yield client


@asynccontextmanager
async def by_anthropic(answer: Any, **script: Any) -> AsyncIterator[Any]:
    async with (
        ScriptedServer(Script(id="m", answers=[answer], **script)) as server,
        anthropic.AsyncAnthropic(base_url=server.url, api_key="k", max_retries=0) as client,
    ):
        yield client


def assert_chat(reply: Any) -> None:
    (choice,) = reply.choices
    assert choice.message.reasoning_content == THOUGHT
    assert choice.message.content == TEXT
    first, second = choice.message.tool_calls
    assert (first.id, first.function.name, json.loads(first.function.arguments)) == ("look_1", "look", ARGUMENTS)
    assert (second.id, second.function.name, second.function.arguments) == ("call_1_4", "tell", "{}")
    assert choice.finish_reason == "tool_calls"
    usage = reply.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100, 50, 150)
    assert (usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens_details.cache_write_tokens) == (60, 30)
    assert usage.completion_tokens_details.reasoning_tokens == 20


async def test_chat_whole() -> None:
    async with by_openai(EVERYTHING) as client:
        assert_chat(await client.chat.completions.create(model="m", messages=ASK))


@pytest.mark.parametrize("size", CUTS)
async def test_chat_streamed_and_folded(size: int) -> None:
    async with (
        by_openai(cut(size)) as client,
        client.chat.completions.stream(model="m", messages=ASK, stream_options={"include_usage": True}) as stream,
    ):
        assert_chat(await stream.get_final_completion())


async def test_chat_reasoning_has_the_name_that_is_asked_for() -> None:
    async with by_openai(EVERYTHING, reasoning_field="reasoning") as client:
        reply = await client.chat.completions.create(model="m", messages=ASK)
    assert reply.choices[0].message.reasoning == THOUGHT
    assert "reasoning_content" not in reply.choices[0].message.model_fields_set


def assert_responses(response: Any) -> None:
    thought, hidden, message, first, second = response.output
    assert [part.text for part in thought.content] == [THOUGHT]
    assert (hidden.type, hidden.encrypted_content, hidden.summary) == ("reasoning", "c2VjcmV0", [])
    assert [part.text for part in message.content] == [TEXT]
    assert (first.call_id, first.name, json.loads(first.arguments)) == ("look_1", "look", ARGUMENTS)
    assert (second.call_id, second.id, second.arguments) == ("call_1_4", "fc_1_4", "{}")
    assert response.status == "completed"
    assert response.output_text == TEXT
    usage = response.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (100, 50, 150)
    assert (usage.input_tokens_details.cached_tokens, usage.input_tokens_details.cache_write_tokens) == (60, 30)
    assert usage.output_tokens_details.reasoning_tokens == 20


async def test_responses_whole() -> None:
    async with by_openai(EVERYTHING) as client:
        assert_responses(await client.responses.create(model="m", input="hello"))


@pytest.mark.parametrize("size", CUTS)
async def test_responses_streamed_and_folded(size: int) -> None:
    async with by_openai(cut(size)) as client:
        async with client.responses.stream(model="m", input="hello") as stream:
            assert_responses(await stream.get_final_response())
        raw = [event async for event in await client.responses.create(model="m", input="hello", stream=True)]
    assert [event.sequence_number for event in raw] == list(range(len(raw)))
    assert "".join(one.delta for one in raw if one.type == "response.output_text.delta") == TEXT
    assert "".join(one.delta for one in raw if one.type == "response.reasoning_text.delta") == THOUGHT
    arguments = [one.delta for one in raw if one.type == "response.function_call_arguments.delta"]
    assert "".join(arguments) == json.dumps(ARGUMENTS, ensure_ascii=False) + "{}"
    assert [one.name for one in raw if one.type == "response.function_call_arguments.done"] == ["look", "tell"]
    ended = [one.item.id for one in raw if one.type == "response.output_item.done"]
    assert [one.item.id for one in raw if one.type == "response.output_item.added"] == ended
    assert len(ended) == 5


async def test_responses_thinking_with_a_signature_is_a_sealed_summary() -> None:
    answer = {"blocks": [{"type": "thinking", "text": "hm hm hm", "signature": "sealed"}]}
    async with by_openai(answer) as client, client.responses.stream(model="m", input="hello") as stream:
        events = [event async for event in stream]
        (item,) = (await stream.get_final_response()).output
    assert ([part.text for part in item.summary], item.encrypted_content) == (["hm hm hm"], "sealed")
    kinds = [event.type.removeprefix("response.reasoning_summary_") for event in events]
    assert [kind for kind in dict.fromkeys(kinds) if "." in kind and "response" not in kind] == [
        "part.added", "text.delta", "text.done", "part.done",
    ]  # fmt: skip


def assert_message(message: Any) -> None:
    thought, hidden, text, first, second = message.content
    assert (thought.thinking, thought.signature) == (THOUGHT, minted(THOUGHT))
    assert (hidden.type, hidden.data) == ("redacted_thinking", "c2VjcmV0")
    assert text.text == TEXT
    assert (first.id, first.name, first.input) == ("look_1", "look", ARGUMENTS)
    assert (second.id, second.name, second.input) == ("toolu_1_4", "tell", {})
    assert (message.stop_reason, message.stop_sequence, message.stop_details) == ("tool_use", None, None)
    usage = message.usage
    assert (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens) == (10, 30, 60)
    assert (usage.output_tokens, usage.output_tokens_details.thinking_tokens) == (50, 20)


async def test_messages_whole() -> None:
    async with by_anthropic(EVERYTHING) as client:
        assert_message(await client.messages.create(model="m", max_tokens=9, messages=ASK))


@pytest.mark.parametrize("size", CUTS)
async def test_messages_streamed_and_folded(size: int) -> None:
    async with (
        by_anthropic(cut(size)) as client,
        client.messages.stream(model="m", max_tokens=9, messages=ASK) as stream,
    ):
        assert_message(await stream.get_final_message())


async def test_messages_blocks_open_and_close_in_order() -> None:
    events = await told(PATHS["messages"])
    kinds = list(dict.fromkeys((one["type"], one.get("index")) for one in events))
    blocks = [(f"content_block_{what}", at) for at in range(5) for what in ("start", "delta", "stop")]
    blocks.remove(("content_block_delta", 1))  # redacted thinking has none
    blocks.insert(1, ("ping", None))
    assert kinds == [("message_start", None), *blocks, ("message_delta", None), ("message_stop", None)]
    of_thinking = [one["delta"]["type"] for one in events if one["type"] == "content_block_delta" and not one["index"]]
    assert (of_thinking[0], of_thinking[-1]) == ("thinking_delta", "signature_delta")


@pytest.mark.parametrize(
    ("stop", "chat", "messages", "responses"),
    [
        ("end", "stop", "end_turn", ("completed", None)),
        ("length", "length", "max_tokens", ("incomplete", "max_output_tokens")),
        ("calls", "tool_calls", "tool_use", ("completed", None)),
        ("sequence", "stop", "stop_sequence", ("completed", None)),
        ("filtered", "content_filter", "refusal", ("incomplete", "content_filter")),
        ("context", "length", "model_context_window_exceeded", ("incomplete", "max_output_tokens")),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_each_end_has_its_name(stream: bool, stop: str, chat: str, messages: str, responses: Any) -> None:
    answer = {"blocks": [{"type": "text", "text": "x"}], "stop": stop, "sequence": "END"}
    found = {name: (await told(path, answer, stream=stream)) for name, path in PATHS.items()}
    assert found["chat"][-2 if stream else 0]["choices"][0]["finish_reason"] == chat
    ended = found["messages"][-2]["delta"] if stream else found["messages"][0]
    assert (ended["stop_reason"], ended["stop_sequence"]) == (messages, "END" if stop == "sequence" else None)
    assert (ended["stop_details"] is not None) is (messages == "refusal")
    last = found["responses"][-1]["response"] if stream else found["responses"][0]
    assert (last["status"], (last["incomplete_details"] or {}).get("reason")) == responses
    assert last["output"][-1]["status"] == responses[0]


@pytest.mark.parametrize(("engine", "field"), [("vllm", "stop_reason"), ("sglang", "matched_stop")])
async def test_engines_say_which_stop_sequence_it_was(engine: str, field: str) -> None:
    answer = {"blocks": [{"type": "text", "text": "x"}], "stop": "sequence", "sequence": "END"}
    async with by_openai(answer, engine=engine) as client:
        reply = await client.chat.completions.create(model="m", messages=ASK)
    assert getattr(reply.choices[0], field) == "END"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_has_its_place(stream: bool) -> None:
    answer = {"blocks": [{"type": "refusal", "text": "I would rather not."}]}
    found = {name: (await told(path, answer, stream=stream)) for name, path in PATHS.items()}
    ended = found["messages"][-2]["delta"] if stream else found["messages"][0]
    assert ended["stop_reason"] == "refusal"
    last = found["responses"][-1]["response"] if stream else found["responses"][0]
    assert last["output"][0]["content"] == [{"type": "refusal", "refusal": "I would rather not."}]
    if stream:
        assert "".join(one.get("refusal", "") for one in deltas(found["chat"])) == "I would rather not."
    else:
        assert found["chat"][0]["choices"][0]["message"]["refusal"] == "I would rather not."


async def test_broken_arguments_are_sent_as_they_are() -> None:
    broken = '{"city": "Zü'
    answer = {"blocks": [{"type": "call", "name": "look", "arguments": broken}], "stop": "length"}
    chat = await told(PATHS["chat"], answer, stream=False)
    assert chat[0]["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == broken
    events = await told(PATHS["messages"], answer)
    assert "".join(one["delta"]["partial_json"] for one in events if one["type"] == "content_block_delta") == broken
    assert (await told(PATHS["messages"], answer, stream=False))[0]["content"][0]["input"] == broken
    assert (await told(PATHS["responses"], answer))[-1]["response"]["output"][0]["arguments"] == broken


async def test_arguments_given_as_text_keep_their_numbers() -> None:
    exact = '{"big": 123456789012345678901234567890, "one": 1.0}'
    answer = {"blocks": [{"type": "call", "name": "f", "arguments": exact}]}
    async with ScriptedServer(Script(answers=[answer])) as server, RawClient(server.port) as client:
        reply = await client.ask("POST", PATHS["messages"], {"messages": ASK})
        assert (await client.ask("GET", "/control")).json()["script"]["answers"] == [answer | {"usage": {}}]
    assert exact.encode() in reply.body


HISTORY: dict[str, list[Any]] = {
    "/v1/chat/completions": [
        *ASK,
        {"role": "assistant", "content": "a", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "sunny"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "more"},
    ],
    "/v1/messages": [
        *ASK,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "sunny"}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "more"},
    ],
    "/v1/responses": [
        *ASK,
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "sunny"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "more"}]},
    ],
}


async def picked(path: str, answers: list[Any], history: list[Any]) -> str:
    async with ScriptedServer(Script(answers=answers)) as server, RawClient(server.port) as client:
        name = "input" if path == "/v1/responses" else "messages"
        return (await client.ask("POST", path, {name: history})).body.decode()


@pytest.mark.parametrize("path", HISTORY)
async def test_a_session_walks_through_the_list(path: str) -> None:
    answers = [{"blocks": [{"type": "text", "text": f"answer {at}"}]} for at in range(2)]
    history = HISTORY[path]
    until_the_result = next(at for at, one in enumerate(history) if "sunny" in json.dumps(one)) + 1
    assert "answer 0" in await picked(path, answers, history[:1])
    assert "answer 1" in await picked(path, answers, history[:until_the_result])
    assert "answer 1" in await picked(path, answers, history)  # the last stays


@pytest.mark.parametrize("path", HISTORY)
async def test_a_word_that_came_since_the_last_turn_wins_before_counting(path: str) -> None:
    answers = [
        {"blocks": [{"type": "text", "text": "by word"}], "when": "sunny"},
        {"blocks": [{"type": "text", "text": "by number"}]},
    ]
    history = HISTORY[path]
    until_the_result = next(at for at, one in enumerate(history) if "sunny" in json.dumps(one)) + 1
    assert "by number" in await picked(path, answers, history[:1])
    assert "by word" in await picked(path, answers, history[:until_the_result])
    assert "by number" in await picked(path, answers, history)
    assert "tok0" in await picked(path, answers[:1], history)  # nothing fits: tokens


async def test_answers_come_through_the_control_body_and_go_again() -> None:
    async with ScriptedServer() as server, RawClient(server.port) as client:
        assert (await client.ask("POST", "/control", {"answers": [EVERYTHING], "quirks": "no_done"})).status == 200
        shown = (await client.ask("GET", "/control")).json()["script"]
        assert (await client.ask("POST", "/control", {"answers": shown["answers"]})).status == 200
        assert TEXT in (await client.ask("POST", PATHS["chat"], {"messages": ASK})).body.decode()
        refused = await client.ask("POST", "/control", {"answers": [{"blocks": [{"type": "tekst"}]}]})
        assert refused.status == 400
        assert "tekst" in refused.json()["error"]["message"]
        assert (await client.ask("POST", "/control", {"answers": [], "quirks": ""})).status == 200
        assert "tok0" in (await client.ask("POST", PATHS["chat"], {"messages": ASK})).body.decode()


async def test_usage_that_is_not_given_is_what_was_sent() -> None:
    answer = {"blocks": [{"type": "thinking", "text": "abcd"}, {"type": "text", "text": "abcdef"}], "cut": 2}
    (reply,) = await told(PATHS["chat"], answer, stream=False)
    assert reply["usage"]["prompt_tokens"] == 1
    assert reply["usage"]["completion_tokens"] == 5
    assert reply["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}


async def test_a_rich_reply_has_the_faults_of_any_other() -> None:
    async with (
        ScriptedServer(Script(answers=[EVERYTHING], error_event_after=3)) as server,
        RawClient(server.port) as client,
    ):
        for path in PATHS.values():
            body = (await client.ask("POST", path, {"stream": True, "messages": ASK})).body.decode()
            assert "scripted failure" in body
            assert "Let me" not in body
