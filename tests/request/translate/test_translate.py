"""One request's translation through whole pairs of dialects, whatever the network cut it into."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.request.translate.capable import capabilities_of
from tests.request.translate.messages.test_messages_write_answer import folded

from stoker.domain.dialect import TARGETS, Dialect
from stoker.domain.errors import ClientError, UpstreamError
from stoker.domain.prompt import Prompt, Tool
from stoker.request.translate.neutral.gaps import Losses
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import ThinkingSigner
from stoker.request.translate.translate import (
    TRANSLATORS,
    AnswerTranslator,
    Written,
    read_prompt,
    write_prompt,
)

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
SIGNER = ThinkingSigner((b"key",))


def translator(upstream: Dialect, client: Dialect, names: dict[str, str] | None = None, **fields: Any) -> Any:
    prompt = Prompt(client, "m", [], **fields)
    asked = AnswerContext(prompt, "req_1", 7, SIGNER, "served")
    return AnswerTranslator(upstream, Written(prompt, b"", names or {}, Losses()), asked, ("a>b",))


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "model": "m", "choices": choices, **more}


def piece(index: int | None, arguments: str, id: str | None = None, name: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"id": id, "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [found if index is None else {"index": index, **found}]}


def sse(*payloads: dict[str, Any], done: bool = True, end: bytes = b"\n\n") -> bytes:
    frames = [b"data: " + json.dumps(payload, ensure_ascii=False).encode() for payload in payloads]
    return b"".join(frame + end for frame in (*frames, *([b"data: [DONE]"] if done else [])))


def named(*payloads: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\n%b" % (p["type"].encode(), sse(p, done=False)) for p in payloads)


def parsed(out: bytes) -> list[dict[str, Any]]:
    lines = [line.removeprefix(b"data: ") for line in out.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def to_messages(data: bytes, cuts: list[int] | None = None, **fields: Any) -> list[dict[str, Any]]:
    one = translator(CHAT, MESSAGES, **fields)
    out = b""
    for start, stop in zip([0, *(cuts or [])], [*(cuts or []), len(data)], strict=True):
        out += one.feed(data[start:stop])
    assert one.has_ended()
    return parsed(out + one.take_rest())


def to_chat(data: bytes, cuts: list[int] | None = None, **fields: Any) -> dict[str, Any]:
    """The client's message, put together as OpenAI's SDK does it."""
    one = translator(MESSAGES, CHAT, **fields)
    out = b""
    for start, stop in zip([0, *(cuts or [])], [*(cuts or []), len(data)], strict=True):
        out += one.feed(data[start:stop])
    assert one.has_ended()
    out += one.take_rest()
    assert out.endswith(b"data: [DONE]\n\n")
    assert out.count(b"[DONE]") == 1
    found: dict[str, Any] = {"calls": {}, "usage": None}
    for payload in parsed(out):
        assert (payload["id"], payload["model"]) == ("chatcmpl-msg_1", "m")
        found["usage"] = payload.get("usage") or found["usage"]
        for choice in payload["choices"]:
            found["finish"] = choice["finish_reason"]
            for name, value in choice["delta"].items():
                if name == "tool_calls":
                    call = found["calls"].setdefault(value[0]["index"], [value[0].get("id"), "", ""])
                    call[1] += value[0]["function"].get("name", "")
                    call[2] += value[0]["function"]["arguments"]
                else:
                    found[name] = found.get(name, "") + value
    return found


# -- chat upstream, Messages client -----------------------------------------------------------------------------------


FULL = sse(
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "hm é"}),
    chunk({"reasoning_content": ".", "content": "Hi"}),
    chunk({"content": " there \u2028"}),
    chunk(piece(0, "", "t0", "f")),
    chunk(piece(0, '{"city": "San ')),
    chunk(piece(1, '{"b"', "t1", "g")),
    chunk(piece(0, 'José"}')),
    chunk(piece(1, ":[1,2]}")),
    chunk({}, "tool_calls"),
    chunk(usage={
        "prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 800},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }),
)  # fmt: skip
WHOLE_CHAT = {
    "id": "chatcmpl-1", "model": "m",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "Hi there \u2028", "reasoning_content": "hm é.",
        "tool_calls": [
            {"id": "t0", "type": "function", "function": {"name": "f", "arguments": '{"city": "San José"}'}},
            {"id": "t1", "type": "function", "function": {"name": "g", "arguments": '{"b":[1,2]}'}},
        ],
    }}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 800},
              "completion_tokens_details": {"reasoning_tokens": 5}},
}  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, len(FULL)), max_size=40).map(sorted), st.booleans())
def test_a_chat_stream_in_any_pieces_is_the_message_of_the_whole_answer(cuts: list[int], crlf: bool) -> None:
    data = FULL.replace(b"\n", b"\r\n") if crlf else FULL
    whole = json.loads(translator(CHAT, MESSAGES).translate_whole(json.dumps(WHOLE_CHAT).encode()))
    assert folded(to_messages(data, cuts)) == whole
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert (whole["usage"]["input_tokens"], whole["usage"]["cache_read_input_tokens"]) == (200, 800)


def types(*payloads: dict[str, Any]) -> list[str]:
    return [event.get("delta", event.get("content_block", event)).get("type", event["type"])
            for event in to_messages(sse(*payloads))]  # fmt: skip


def test_litellm_33224_the_tail_of_reasoning_and_the_first_text_in_one_chunk_are_both_kept() -> None:
    assert types(chunk({"reasoning_content": "x", "content": "y"}), chunk({}, "stop")) == [
        "message_start", "thinking", "thinking_delta", "signature_delta", "content_block_stop", "text", "text_delta",
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip


def content(*payloads: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = folded(to_messages(sse(*payloads)))["content"]
    return found


def test_litellm_30014_the_first_text_in_the_first_chunk_survives() -> None:
    assert content(chunk({"role": "assistant", "content": "Hi"}), chunk({}, "stop")) == [{"type": "text", "text": "Hi"}]


def test_vllm_serving_a_first_chunk_with_everything_loses_nothing() -> None:
    one = chunk({"role": "assistant", "content": "Hi", **piece(0, "{}", "t", "f")}, "tool_calls")
    assert [block["type"] for block in content(one)] == ["text", "tool_use"]


def test_litellm_13638_a_piece_of_arguments_without_id_and_name_is_no_text() -> None:
    pieces = (piece(0, '{"city": "', "t", "f"), piece(0, "San "), piece(0, 'José"}'))
    (call,) = content(*map(chunk, pieces), chunk({}, "tool_calls"))
    assert call == {"type": "tool_use", "id": "t", "name": "f", "input": {"city": "San José"}}


@pytest.mark.parametrize("index", [0, None])
def test_litellm_25836_a_whole_call_in_one_delta_keeps_its_arguments(index: int | None) -> None:
    (call,) = content(chunk(piece(index, '{"a":1}', "t", "f")), chunk({}, "tool_calls"))
    assert call["input"] == {"a": 1}


def test_litellm_15307_three_calls_in_a_row_are_three_blocks() -> None:
    calls = content(*(chunk(piece(at, "{}", f"t{at}", "f")) for at in range(3)), chunk({}, "tool_calls"))
    assert [call["id"] for call in calls] == ["t0", "t1", "t2"]


def test_nanoclaw_1241_the_same_id_on_each_piece_is_one_block() -> None:
    pieces = [chunk(piece(0, text, "t", "f")) for text in ('{"a"', ":", "1}")]
    assert [call["input"] for call in content(*pieces, chunk({}, "stop"))] == [{"a": 1}]


def test_headroom_2890_no_delta_comes_after_its_block_where_calls_interleave() -> None:
    pieces = [
        chunk(piece(0, '{"a', "t0", "f")), chunk(piece(1, '{"b', "t1", "f")), chunk(piece(0, '":1}')),
        chunk(piece(2, "{}", "t2", "f")), chunk(piece(1, '":2}')),
    ]  # fmt: skip
    assert [call["input"] for call in content(*pieces, chunk({}, "tool_calls"))] == [{"a": 1}, {"b": 2}, {}]


def test_litellm_33315_empty_deltas_are_no_events() -> None:
    empty = chunk({"content": "", "reasoning_content": "", "tool_calls": None})
    assert types(empty, empty, chunk({}, "stop")) == ["message_start", "message_delta", "message_stop"]


@pytest.mark.parametrize(
    ("finish", "extra", "reason"),
    [
        ("stop", {}, "end_turn"),
        ("length", {}, "max_tokens"),
        ("content_filter", {}, "refusal"),
        ("tool_calls", {}, "end_turn"),
        ("stop", piece(0, "{}", "t", "f"), "tool_use"),
        ("stop", {"refusal": "no"}, "refusal"),
    ],
)
def test_vllm_serving_every_finish_has_a_stop_reason(finish: str, extra: dict[str, Any], reason: str) -> None:
    assert folded(to_messages(sse(chunk(extra), chunk({}, finish))))["stop_reason"] == reason


def test_the_stop_string_of_vllm_is_told() -> None:
    last = chunk({}, "stop")
    last["choices"][0]["stop_reason"] = "END"
    found = folded(to_messages(sse(chunk({"content": "a"}), last)))
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "END")


def test_what_is_known_of_usage_by_the_first_text_stands_in_the_beginning() -> None:
    progress = chunk({"role": "assistant"}, prompt_progress={"total": 50, "cache": 20})
    events = to_messages(sse(progress, chunk({"content": "a"}), chunk({}, "stop")))
    usage = events[0]["message"]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (30, 20)


# -- Messages upstream, chat client -----------------------------------------------------------------------------------


BEGIN = {"type": "message_start", "message": {
    "id": "msg_1", "model": "m", "usage": {"input_tokens": 200, "cache_read_input_tokens": 800, "output_tokens": 1},
}}  # fmt: skip


def block(index: int, kind: str, *deltas: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


END = [
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
    {"type": "message_stop"},
]
SAID = named(
    BEGIN, {"type": "ping"},
    *block(0, "thinking", {"type": "thinking_delta", "thinking": "hm é"},
           {"type": "signature_delta", "signature": "s"}),
    *block(1, "text", {"type": "text_delta", "text": "Hi"}, {"type": "text_delta", "text": " there \u2028"}),
    *block(2, "tool_use", {"type": "input_json_delta", "partial_json": '{"city": "San '},
           {"type": "input_json_delta", "partial_json": 'José"}'}, id="t0", name="f", input={}),
    *block(3, "tool_use", id="t1", name="g", input={}),
    *END,
)  # fmt: skip


@settings(max_examples=examples(60))
@given(st.lists(st.integers(0, len(SAID)), max_size=40).map(sorted))
def test_a_messages_stream_in_any_pieces_is_the_same_chat_answer(cuts: list[int]) -> None:
    assert to_chat(SAID, cuts) == {
        "role": "assistant", "reasoning_content": "hm é", "content": "Hi there \u2028", "finish": "tool_calls",
        "calls": {0: ["t0", "f", '{"city": "San José"}'], 1: ["t1", "g", "{}"]},
        "usage": {
            "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
            "prompt_tokens_details": {"cached_tokens": 800},
        },
    }  # fmt: skip


def test_a_whole_message_is_the_same_chat_answer() -> None:
    one = translator(MESSAGES, CHAT)
    found = json.loads(one.translate_whole(json.dumps({
        "id": "msg_1", "model": "m", "stop_reason": "refusal", "usage": {"input_tokens": 3, "output_tokens": 4},
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a"}],
    }).encode()))  # fmt: skip
    message, finish = found["choices"][0]["message"], found["choices"][0]["finish_reason"]
    assert (message["content"], message["reasoning_content"], finish) == ("a", "hm", "content_filter")
    assert (one.usage.input, one.usage.output) == (3, 4)
    assert one.describe_changes() == b"a>b,lossy:signature"


@pytest.mark.parametrize(
    "payloads",
    [
        [*block(0, "text", {"type": "text_delta", "text": "a"}), *END],
        [*block(0, "text", {"type": "text_delta", "text": "a"}), BEGIN, *END],
        [{"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}}, *block(0, "text", text="a"), *END],
    ],
)
def test_a_serve_that_leaves_its_beginning_out_is_understood_all_the_same(payloads: list[dict[str, Any]]) -> None:
    one = translator(MESSAGES, CHAT)
    chunks = parsed(one.feed(named(*payloads)))
    assert all(set(chunk) >= {"id", "object", "created", "model", "choices"} for chunk in chunks)
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert [delta.get("role") for delta in deltas] == ["assistant", None, None]
    assert "".join(delta.get("content", "") for delta in deltas) == "a"


# -- the ends of streams ----------------------------------------------------------------------------------------------


def test_a_stream_that_breaks_off_has_not_ended() -> None:
    one = translator(CHAT, MESSAGES)
    one.feed(sse(chunk({"content": "a"}), done=False))
    assert (one.has_ended(), one.take_rest()) == (False, b"")


def test_a_stream_without_done_has_ended_with_its_finish_and_the_rest_follows_once() -> None:
    one = translator(CHAT, MESSAGES)
    one.feed(sse(chunk({"content": "a"}), chunk({}, "stop"), done=False))
    assert (one.has_ended(), one.has_ended()) == (True, True)
    assert [event["type"] for event in parsed(one.take_rest())] == [
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert one.take_rest() == b""


def test_what_follows_the_end_is_nothing() -> None:
    one = translator(CHAT, MESSAGES)
    one.feed(sse(chunk({"content": "a"}), chunk({}, "stop")))
    assert one.feed(sse(chunk({"content": "b"}), {"error": {"message": "late"}})) == b""
    assert one.error is None


@pytest.mark.parametrize(("upstream", "client"), [(CHAT, MESSAGES), (MESSAGES, CHAT)])
def test_sglang_20754_an_error_comes_as_one_error_and_no_end(upstream: Dialect, client: Dialect) -> None:
    one = translator(upstream, client)
    error = {"type": "error", "error": {"type": "invalid_request_error", "code": 400, "message": "too long"}}
    (first,) = parsed(one.feed(sse(error, error, done=False)) + one.feed(sse(BEGIN)))
    assert first["error"]["message"] == "too long"
    assert (one.error.message, one.error.status, one.is_meaningful) == ("too long", 400, False)


def test_an_error_after_text_closes_nothing_by_pretending() -> None:
    one = translator(CHAT, MESSAGES)
    out = parsed(one.feed(sse(chunk({"content": "a"}), {"error": {"message": "m"}}, chunk({}, "stop"))))
    assert out[-1]["type"] == "error"
    assert "message_stop" not in [event["type"] for event in out]


def test_frames_that_are_no_objects_are_nothing() -> None:
    one = translator(CHAT, MESSAGES)
    assert one.feed(b": ping\n\ndata: 7\n\ndata: {\n\ndata: []\n\nevent: x\n\ndata: \xff\n\n") == b""
    assert not one.is_meaningful


@pytest.mark.parametrize(
    ("payload", "meaningful"),
    [
        (chunk({"role": "assistant"}), False),
        (chunk(usage={"prompt_tokens": 1}), False),
        (chunk({"content": "a"}), True),
        (chunk(piece(0, "", "t", "f")), True),
    ],
)
def test_a_reply_is_committed_by_its_first_word(payload: dict[str, Any], meaningful: bool) -> None:
    one = translator(CHAT, MESSAGES)
    out = one.feed(sse(payload, done=False))
    assert (one.is_meaningful, bool(out)) == (meaningful, meaningful)


def test_usage_is_noted_for_the_decision() -> None:
    one = translator(CHAT, MESSAGES)
    one.feed(FULL)
    assert (one.usage.input, one.usage.output, one.usage.cached) == (1000, 20, 800)


# -- whole answers, refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"error":{"message":"secret"}}', b"{}", b'{"content":[]}'])
def test_an_answer_that_is_none_is_an_error_without_its_words(body: bytes) -> None:
    with pytest.raises(UpstreamError) as told:
        translator(CHAT, MESSAGES).translate_whole(body)
    assert told.value.code == "upstream_unusable"
    assert "secret" not in told.value.message


def test_numbers_of_events_are_the_writers() -> None:
    assert translator(CHAT, MESSAGES).position().sequence == 0
    one = translator(CHAT, RESPONSES)
    out = parsed(one.feed(FULL))
    assert one.position().sequence == out[-1]["sequence_number"] + 1
    assert translator(CHAT, Dialect.OLLAMA_CHAT).content_type.startswith(b"application/x-ndjson")


# -- requests -----------------------------------------------------------------------------------------------------


def test_every_serve_can_be_asked_and_understood_for_every_client() -> None:
    assert {one for one, how in TRANSLATORS.items() if how.write_prompt and how.read_answer} == set(TARGETS)
    assert set(TRANSLATORS) == {one for one in Dialect if one.spec.limits}
    assert set(TARGETS) == {one for one in TRANSLATORS if one.spec.answers} - {Dialect.COMPLETIONS}


LONG = "mcp__a_server_with_a_long_name__a_tool_with_an_even_longer_name_than_that"


def asking(**fields: Any) -> bytes:
    return json.dumps(
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **fields}
    ).encode()


def test_a_long_name_is_shortened_for_the_serve_and_itself_again_in_the_answer() -> None:
    call = {"type": "tool_use", "id": "t", "name": LONG, "input": {}}
    body = asking(
        tools=[{"name": LONG, "input_schema": {"type": "object"}}],
        tool_choice={"type": "tool", "name": LONG},
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
        ],
    )
    prompt, losses = read_prompt(MESSAGES, body)
    written = write_prompt(prompt, losses, capabilities_of("vllm", CHAT, cloud=False), SIGNER)
    document = json.loads(written.body)
    short = document["tools"][0]["function"]["name"]
    assert (len(short) <= 64, short.startswith(LONG[:55])) == (True, True)
    assert document["tool_choice"]["function"]["name"] == short
    assert document["messages"][1]["tool_calls"][0]["function"]["name"] == short
    assert written.prompt.tools[0].name == LONG
    assert dict(written.losses.codes) == {}
    asked = AnswerContext(written.prompt, "req_1", 7, SIGNER, "served")
    one = AnswerTranslator(CHAT, written, asked)
    out = parsed(one.feed(sse(chunk(piece(0, "{}", "t", short)), chunk({}, "tool_calls"))))
    assert [event["content_block"]["name"] for event in out if "content_block" in event] == [LONG]
    whole = {"choices": [{"message": {"tool_calls": [{"id": "t", "function": {"name": short, "arguments": "{}"}}]}}]}
    found = json.loads(AnswerTranslator(CHAT, written, asked).translate_whole(json.dumps(whole).encode()))
    assert found["content"][0]["name"] == LONG


def test_a_custom_tool_gets_its_text_back() -> None:
    one = translator(MESSAGES, RESPONSES, tools=[Tool("patch", custom=True)])
    call = {"type": "tool_use", "id": "t", "name": "patch", "input": {"input": "any text"}}
    whole = {"id": "msg_1", "content": [call], "stop_reason": "tool_use"}
    item = json.loads(one.translate_whole(json.dumps(whole).encode()))["output"][0]
    assert (item["type"], item["input"]) == ("custom_tool_call", "any text")


def test_losses_of_reading_and_writing_are_told_together() -> None:
    prompt, losses = read_prompt(MESSAGES, asking(cache_control={"type": "ephemeral"}, service_tier="auto"))
    written = write_prompt(prompt, losses, capabilities_of("vllm", CHAT, cloud=False), SIGNER)
    assert list(written.losses.codes) == ["cache_control", "service_tier"]
    assert list(losses.codes) == ["cache_control"]


def test_a_strict_serve_refuses_what_would_be_lost_and_takes_the_rest() -> None:
    strict = capabilities_of("vllm", CHAT, False, {"strict": True})
    with pytest.raises(ClientError) as told:
        write_prompt(*read_prompt(MESSAGES, asking(cache_control={"type": "ephemeral"})), strict, SIGNER)
    assert (told.value.code, told.value.param) == ("would_lose", "cache_control")
    assert write_prompt(*read_prompt(MESSAGES, asking()), strict, SIGNER).losses.codes == {}


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES])
def test_what_a_messages_client_says_reaches_every_serve_and_what_it_hears_can_be_said_again(dialect: Dialect) -> None:
    """Round trip: the serve's answer, sent back by the client, reaches the serve as what it had said."""
    message = json.loads(translator(CHAT, MESSAGES).translate_whole(json.dumps(WHOLE_CHAT).encode()))
    results = [{"type": "tool_result", "tool_use_id": f"t{at}", "content": f"r{at}"} for at in range(2)]
    body = asking(messages=[
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": results},
    ])  # fmt: skip
    written = write_prompt(*read_prompt(MESSAGES, body), capabilities_of("vllm", dialect, cloud=False), SIGNER)
    assert dict(written.losses.codes) == {}
    text = written.body.decode()
    for said in ("hm é.", "Hi there", "San Jos", "r0", "r1"):
        assert said in text
    if dialect is CHAT:
        own = json.loads(written.body)["messages"][1]
        original: Any = WHOLE_CHAT["choices"][0]["message"]  # type: ignore[index]
        assert own["reasoning_content"] == original["reasoning_content"]
        arguments = [call["function"]["arguments"] for call in own["tool_calls"]]
        assert [json.loads(text) for text in arguments] == [{"city": "San José"}, {"b": [1, 2]}]


def test_a_chat_conversation_reaches_anthropic_with_its_arguments_byte_for_byte() -> None:
    arguments = '{"n":12345678901234567890123,"x":1.0}'
    body = asking(messages=[
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [
            {"id": "t", "type": "function", "function": {"name": "f", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": "t", "content": "[tool error] r"},
    ])  # fmt: skip
    written = write_prompt(*read_prompt(CHAT, body), capabilities_of("openai", MESSAGES, cloud=True), SIGNER)
    assert arguments.encode() in written.body
    result = json.loads(written.body)["messages"][2]["content"][0]
    assert result == {"type": "tool_result", "tool_use_id": "t", "content": "r", "is_error": True}
    assert list(written.losses.codes) == ["thinking_unsigned"]


@settings(max_examples=examples(150))
@given(
    st.sampled_from((CHAT, MESSAGES)),
    st.recursive(
        st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("role", "content", "type", "text", "id", "name", "input", "function", "tool_calls",
                             "source", "data", "tool_use_id", "thinking", "arguments", "image_url", "url")),
            inner | st.sampled_from(("user", "assistant", "system", "tool", "tool_use", "tool_result", "image", "text",
                                     "thinking", "document", "function", "image_url")),
            max_size=5,
        ),
        max_leaves=25,
    ),
)  # fmt: skip
def test_whatever_a_client_sends_is_written_or_is_its_own_fault(dialect: Dialect, found: Any) -> None:
    body = json.dumps({"model": "m", "messages": found, "tools": found, "tool_choice": found}).encode()
    other = MESSAGES if dialect is CHAT else CHAT
    with suppress(ClientError):
        written = write_prompt(*read_prompt(dialect, body), capabilities_of("vllm", other, cloud=False), SIGNER)
        assert json.loads(written.body)["model"] == "m"
