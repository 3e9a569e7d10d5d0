"""Bugs of other translators, between a chat serve and clients of Messages: none of them is ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.request.translate.capable import capabilities_of

from stoker.domain.dialect import Dialect
from stoker.request.translate.neutral.capabilities import Capabilities
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import AnswerTranslator, Written, read_prompt, write_prompt

SIGNER = ThinkingSigner((b"k",))
SERVE = capabilities_of("vllm", Dialect.CHAT, cloud=False)
TOOL = {"name": "f", "input_schema": {"type": "object"}}


def ask(client: Dialect = Dialect.MESSAGES, to: Capabilities = SERVE, **fields: Any) -> tuple[Written, dict[str, Any]]:
    given = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]} | fields
    written = write_prompt(*read_prompt(client, json.dumps(given).encode()), to, SIGNER)
    return written, json.loads(written.body)


def translator(client: Dialect = Dialect.MESSAGES) -> AnswerTranslator:
    written, _ = ask(client)
    return AnswerTranslator(Dialect.CHAT, written, AnswerContext(written.prompt, "req_1", 1700000000, SIGNER, "m"))


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(index: int, id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    return chunk(tool_calls=[{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}])


def sse(*payloads: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in payloads) + b"data: [DONE]\n\n"


def events(*payloads: dict[str, Any], cuts: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    body, made, out = sse(*payloads), translator(), b""
    for start, end in zip((0, *cuts), (*cuts, len(body)), strict=True):
        out += made.feed(body[start:end])
    assert made.has_ended()
    return [json.loads(line[6:]) for line in (out + made.take_rest()).splitlines() if line.startswith(b"data: ")]


def folded(*payloads: dict[str, Any], cuts: tuple[int, ...] = ()) -> dict[str, Any]:
    """The message, as an SDK that checks the grammar folds it."""
    message: dict[str, Any] = {}
    is_open = False
    for event in events(*payloads, cuts=cuts):
        match event["type"]:
            case "message_start":
                assert not message
                message = event["message"]
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(message["content"])
                is_open, block = True, event["content_block"]
                message["content"].append(block | ({"input": ""} if block["type"] == "tool_use" else {}))
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(message["content"]) - 1
                (field, text), *_ = ((k, v) for k, v in event["delta"].items() if k != "type")
                assert text
                last = message["content"][-1]
                last["input" if field == "partial_json" else field] += text
            case "content_block_stop":
                assert is_open
                is_open = False
            case "message_delta":
                assert not is_open
                message = message | event["delta"] | {"usage": message["usage"] | event["usage"]}
            case kind:
                assert kind == "message_stop"
    for block in message["content"]:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["input"] or "{}")
    return message


def whole(finish: str = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    payload = {"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": usage}
    found: dict[str, Any] = json.loads(translator().translate_whole(json.dumps(payload).encode()))
    return found


def use(id: str, given: Any, name: str = "f") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


# -- answers ------------------------------------------------------------------------------------------------------


def test_litellm_25836_25605_one_delta_with_a_whole_call_is_what_the_whole_answer_is() -> None:
    streamed = folded(call(0, "c", "f", '{"a":1}'), chunk("tool_calls"))
    made = whole("tool_calls", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": '{"a":1}'}}])
    assert streamed["content"] == made["content"] == [use("c", {"a": 1})]
    assert streamed["stop_reason"] == made["stop_reason"] == "tool_use"


def test_litellm_29491_a_megabyte_in_five_thousand_fragments_arrives_whole() -> None:
    given = {"text": "line\n" * 180_000}
    text = json.dumps(given)
    size = len(text) // 5000 + 1
    fragments = [call(0, None, None, text[at : at + size]) for at in range(0, len(text), size)]
    assert len(text) > 1_000_000
    assert folded(call(0, "c", "f", ""), *fragments, chunk("tool_calls"))["content"] == [use("c", given)]


def test_litellm_33224_thinking_and_text_of_one_chunk_are_two_blocks() -> None:
    thinking, text = folded(chunk(reasoning_content="x", content="y"), chunk("stop"))["content"]
    assert (thinking["thinking"], text["text"]) == ("x", "y")


def test_vllm_serving_py_the_first_chunk_is_more_than_a_start() -> None:
    assert folded(chunk("stop", role="assistant", content="Hi"))["content"] == [{"type": "text", "text": "Hi"}]


def test_vllm_serving_py_the_end_comes_without_usage_too() -> None:
    last = events(chunk("stop", content="a"))[-2]
    assert (last["type"], last["delta"]["stop_reason"]) == ("message_delta", "end_turn")


def test_vllm_serving_py_content_filter_is_a_refusal() -> None:
    assert folded(chunk("content_filter", content="a"))["stop_reason"] == "refusal"
    assert whole("content_filter", content="a")["stop_reason"] == "refusal"


def test_litellm_28354_31069_cached_tokens_are_no_fresh_ones() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 800}}
    streamed = folded(chunk("stop", content="a"), {"choices": [], "usage": usage})["usage"]
    for found in (streamed, whole(usage=usage, content="a")["usage"]):
        assert (found["input_tokens"], found["cache_read_input_tokens"], found["output_tokens"]) == (200, 800, 9)


def test_axonhub_1105_claude_code_router_866_the_signature_is_on_the_thinking() -> None:
    thinking, text = folded(chunk(reasoning_content="x"), chunk(content="y"), chunk("stop"))["content"]
    assert thinking["signature"] == SIGNER.sign("m", "x")
    assert "signature" not in text


def test_headroom_2890_calls_whose_pieces_are_mixed_are_whole() -> None:
    mixed = (
        call(0, "a", "f", '{"x"'),
        call(1, "b", "f", '{"y"'),
        call(0, None, None, ":1}"),
        call(1, None, None, ":2}"),
    )
    assert folded(*mixed, chunk("tool_calls"))["content"] == [use("a", {"x": 1}), use("b", {"y": 2})]


@pytest.mark.parametrize("arguments", ["{bad", "[1]", '{"a":NaN}', "7"])
def test_vllm_serving_py_invalid_arguments_break_nothing(arguments: str) -> None:
    (block,) = whole("tool_calls", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": arguments}}])[
        "content"
    ]
    assert block["input"] in ({"_raw": arguments}, {"a": None})


def test_a_call_cut_off_by_the_limit_is_never_an_empty_object() -> None:
    cut = {"id": "c", "function": {"name": "f", "arguments": '{"path": "/tmp/x", "te'}}
    made = whole("length", tool_calls=[cut])
    assert (made["content"], made["stop_reason"]) == ([use("c", {"path": "/tmp/x"})], "max_tokens")


def test_two_calls_without_ids_stay_two() -> None:
    found = folded(call(0, None, "f", "{}"), call(1, None, "f", "{}"), chunk("tool_calls"))["content"]
    assert len({block["id"] for block in found}) == 2


@given(st.data())
def test_any_cut_of_the_bytes_gives_the_message_of_the_whole_answer(data: st.DataObject) -> None:
    text = st.text(min_size=1, max_size=6)
    thought, said = data.draw(text), data.draw(text)
    arguments = [
        json.dumps(found) for found in data.draw(st.lists(st.dictionaries(text, text, max_size=2), max_size=3))
    ]
    payloads = [chunk(reasoning_content=thought), chunk(content=said)]
    payloads += [call(n, f"c{n}", "f", written) for n, written in enumerate(arguments)]
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    payloads += [chunk("stop"), {"choices": [], "usage": usage}]
    length = len(sse(*payloads))
    cuts = tuple(sorted(data.draw(st.sets(st.integers(1, length - 1), max_size=10))))
    calls = [{"id": f"c{n}", "function": {"name": "f", "arguments": written}} for n, written in enumerate(arguments)]
    made = whole(usage=usage, reasoning_content=thought, content=said, tool_calls=calls)
    assert folded(*payloads, cuts=cuts) == made


# -- requests -----------------------------------------------------------------------------------------------------


def test_litellm_34589_stop_sequences_and_thinking_that_is_off_are_translated() -> None:
    _, document = ask(stop_sequences=["END"], thinking={"type": "disabled"})
    assert document["stop"] == ["END"]
    assert document["chat_template_kwargs"] == {"enable_thinking": False}
    assert not {"stop_sequences", "thinking"} & document.keys()


def test_vllm_serving_py_one_call_at_a_time_and_errors_are_told() -> None:
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [use("c", {})]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}]},
    ]
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    _, document = ask(messages=history, tools=[TOOL], tool_choice=choice)
    assert document["parallel_tool_calls"] is False
    assert document["messages"][-1] == {"role": "tool", "tool_call_id": "c", "content": "[tool error] no"}


def test_omniroute_4413_orphan_results_and_orphan_calls_are_mended() -> None:
    history = [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "old"}]},
        {"role": "assistant", "content": [use("c", {})]},
        {"role": "user", "content": "never mind"},
    ]
    written, document = ask(messages=history)
    roles = [message["role"] for message in document["messages"]]
    assert roles == ["user", "assistant", "tool", "user"]
    assert set(written.losses.codes) >= {"result_orphan", "result_missing"}


def test_vllm_48874_one_more_system_turn_leaves_the_beginning_as_it_was() -> None:
    history = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    more = [
        *history,
        {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "so"},
        {"role": "system", "content": "now"},
    ]
    before, after = (ask(messages=given)[1]["messages"] for given in (history, more))
    assert after[: len(before)] == before
    assert after[-1]["role"] == "user"


def test_inspect_ai_4683_arguments_of_a_megabyte_in_the_history_are_sent() -> None:
    big = {"text": "x" * 1_100_000}
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [use("c", big)]}]
    _, document = ask(messages=history)
    assert json.loads(document["messages"][1]["tool_calls"][0]["function"]["arguments"]) == big


# -- a chat client of a serve that speaks Messages ------------------------------------------------------------------


def test_a_chat_request_to_messages_keeps_what_both_can_say() -> None:
    history = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "functions.f:0", "function": {"name": "f", "arguments": ""}}],
        },
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "[tool error] no"},
        {"role": "user", "content": "so"},
    ]
    function = {"type": "function", "function": {"name": "f"}}
    fields: dict[str, Any] = {
        "tools": [function],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": "END",
    }
    to = capabilities_of("vllm", Dialect.MESSAGES, cloud=False)
    written, document = ask(Dialect.CHAT, to, messages=history, temperature=1.5, **fields)
    assert "be brief" in json.dumps(document["system"])
    calling, answered = document["messages"][1:]
    (block,) = calling["content"]
    result, text = answered["content"]
    assert (block["type"], block["input"]) == ("tool_use", {})
    assert (result["tool_use_id"], result["is_error"], text["text"]) == (block["id"], True, "so")
    assert document["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert document["stop_sequences"] == ["END"]
    assert document["temperature"] == 1
    assert set(written.losses.codes) == {"temperature"}
