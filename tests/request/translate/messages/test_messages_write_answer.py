"""An answer becomes a message, or the events of one, as Anthropic's own SDK reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from stoker.domain.answer import (
    Answer,
    AnswerBlock,
    Began,
    BlockKind,
    Closed,
    Counted,
    Ended,
    Event,
    Failed,
    Finished,
    Grew,
    Opened,
    Signed,
    StopReason,
    Tokens,
)
from stoker.domain.dialect import Dialect
from stoker.domain.errors import UpstreamError
from stoker.domain.prompt import Prompt, Redacted, Refusal, Text, Thinking, ToolCall
from stoker.request.codec.own_replies import ping
from stoker.request.translate.messages.write_answer import MessagesAnswerWriter
from stoker.request.translate.neutral.calls import read_id
from stoker.request.translate.neutral.gaps import LOSSY, Losses
from stoker.request.translate.neutral.json_text import encode
from stoker.request.translate.neutral.protocols import AnswerContext
from stoker.request.translate.neutral.thinking import OURS, ThinkingSigner

SIGNER = ThinkingSigner((b"key",))
EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
DELTAS = {
    "text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta", "redacted_thinking": "none",
}  # fmt: skip


def writer(input_tokens: int | None = None) -> MessagesAnswerWriter:
    prompt = Prompt(Dialect.MESSAGES, "asked", [])
    return MessagesAnswerWriter(AnswerContext(prompt, "req_1", 0, SIGNER, "served", input_tokens), Losses())


def stream(*events: Event, input_tokens: int | None = None) -> list[dict[str, Any]]:
    """The stream's events; each has a name, and is one that the SDK knows."""
    one = writer(input_tokens)
    out = b"".join(one.write(event) for event in events).decode()
    assert set(one.losses.codes) <= set(LOSSY)
    found = []
    for frame in out.split("\n\n")[:-1]:
        name, data = frame.split("\n")
        payload = json.loads(data.removeprefix("data: "))
        assert name == f"event: {payload['type']}"
        if payload["type"] != "error":
            EVENT.validate_python(payload, strict=True)
        found.append(payload)
    return found


def folded(payloads: list[dict[str, Any]]) -> dict[str, Any]:
    """As the SDK puts a message together: strictly one block at a time, numbered from 0."""
    message: dict[str, Any] = payloads[0]["message"]
    arguments = ""
    is_open = False
    for event in payloads[1:-2]:
        blocks = message["content"]
        match event["type"]:
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(blocks)
                blocks.append(event["content_block"])
                is_open, arguments = True, ""
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                given = dict(event["delta"])
                kind = given.pop("type")
                if kind == "signature_delta":
                    assert blocks[-1]["type"] == "thinking"
                    blocks[-1]["signature"] = given["signature"]
                    continue
                assert kind == DELTAS[blocks[-1]["type"]]
                ((name, text),) = given.items()
                assert text
                if name == "partial_json":
                    arguments += text
                else:
                    blocks[-1][name] += text
            case "content_block_stop":
                assert is_open
                assert event["index"] == len(blocks) - 1
                is_open = False
                if arguments:
                    blocks[-1]["input"] = json.loads(arguments)
    assert not is_open
    assert [event["type"] for event in payloads[-2:]] == ["message_delta", "message_stop"]
    message |= payloads[-2]["delta"]
    message["usage"] = payloads[-2]["usage"]
    return message


def events_of(answer: Answer) -> list[Event]:
    out: list[Event] = [Began(answer.id, answer.model)]
    for at, block in enumerate(answer.blocks):
        match block:
            case Text(text=text):
                out += (Opened(at, BlockKind.TEXT), Grew(at, text))
            case Refusal(text=text):
                out += (Opened(at, BlockKind.REFUSAL), Grew(at, text))
            case Thinking(text=text, signature=signature):
                out += (Opened(at, BlockKind.THINKING), Grew(at, text), *([Signed(at, signature)] if signature else []))
            case Redacted(data=data):
                out += (Opened(at, BlockKind.REDACTED), Grew(at, data))
            case ToolCall(id=id, name=name, arguments=arguments):
                out += (Opened(at, BlockKind.CALL, id, name), *(Grew(at, piece) for piece in arguments))
        out.append(Closed(at))
    return [*out, Counted(answer.tokens), Finished(answer.stop, answer.sequence), Ended()]


def whole(answer: Answer, input_tokens: int | None = None) -> dict[str, Any]:
    one = writer(input_tokens)
    found: dict[str, Any] = json.loads(encode(one.write_whole(answer)))
    Message.model_validate(found, strict=True)
    assert set(one.losses.codes) <= set(LOSSY)
    return found


ANSWERS: list[list[AnswerBlock]] = [
    [],
    [Text("Hi")],
    [Thinking("hm"), Text("a")],
    [Thinking("hm", "foreign")],
    [Redacted("d"), Text("a")],
    [Refusal("no")],
    [ToolCall("t", "f", "{}")],
    [ToolCall("t", "f", "")],
    [ToolCall("t", "f", "null")],
    [ToolCall("t", "f", ' {"a":{"b":[1]}}')],
    [ToolCall("t", "f", '"{\\"a\\":1}"')],
    [ToolCall("t", "f", '[{"a":1}]')],
    [ToolCall("t", "f", "7")],
    [ToolCall("t", "f", "no json")],
    [ToolCall("t1", "f", '{"a":1}'), ToolCall("t2", "g", '{"a":1}'), ToolCall("t3", "f", '{"a":1}')],
    [Text("a"), ToolCall("functions.f:0", "f", '{"city":"San José"}'), Text("b")],
]


@pytest.mark.parametrize("blocks", ANSWERS)
def test_a_stream_folds_to_what_the_whole_answer_is(blocks: list[AnswerBlock]) -> None:
    answer = Answer("msg_1", "m", blocks, StopReason.END, None, Tokens(10, 4, 2, 7, 3))
    assert folded(stream(*events_of(answer))) == whole(answer)


def test_arguments_are_live_as_soon_as_they_begin_as_an_object() -> None:
    one = writer()
    one.write(Opened(0, BlockKind.CALL, "t", "f"))
    assert one.write(Grew(0, " \n")) == b""
    assert b'" \\n{"' in one.write(Grew(0, "{"))
    assert b'"}"' in one.write(Grew(0, "}"))


def test_arguments_that_are_a_string_are_held_to_their_end_whatever_their_pieces_begin_with() -> None:
    one = writer()
    one.write(Opened(0, BlockKind.CALL, "t", "f"))
    assert [one.write(Grew(0, piece)) for piece in ('"', '{\\"a\\":', '{}}"')] == [b"", b"", b""]
    assert b'"partial_json":"{\\"a\\":{}}"' in one.write(Closed(0))


def test_ids_of_calls_are_spelt_in_letters_that_messages_takes() -> None:
    (call,) = whole(Answer("", "", [ToolCall("functions.f:0", "f", "{}")]))["content"]
    assert read_id(call["id"]) == "functions.f:0"


# -- thinking -----------------------------------------------------------------------------------------------------


def test_ccr_866_every_block_of_thinking_is_signed_and_the_signature_fits_its_text() -> None:
    for found in (
        folded(stream(*events_of(Answer("", "m", [Thinking("hm")])))),
        folded(stream(Began("", ""), Opened(0, BlockKind.THINKING), Grew(0, "h"), Grew(0, "m"), Closed(0), Ended())),
        whole(Answer("", "", [Thinking("hm")])),
    ):
        (block,) = found["content"]
        assert block["signature"].startswith(OURS)
        assert SIGNER.fits(block["signature"], "hm")
        assert not SIGNER.fits(block["signature"], "hm!")


def test_axonhub_1105_each_signature_stands_right_before_the_end_of_its_own_block() -> None:
    payloads = stream(*events_of(Answer("", "", [Thinking("a", "s"), Thinking("b"), Text("c")])))
    at = [event["index"] for event in payloads if event.get("delta", {}).get("type") == "signature_delta"]
    assert at == [0, 1]
    signatures = [block.get("signature") for block in folded(payloads)["content"]]
    assert signatures[0] == "s"
    assert SIGNER.fits(signatures[1], "b")


def test_what_is_redacted_stands_in_the_start_of_its_block_even_if_it_is_empty_or_comes_in_pieces() -> None:
    payloads = stream(
        Began("", ""),
        Opened(0, BlockKind.REDACTED),
        Closed(0),
        Opened(1, BlockKind.REDACTED),
        Grew(1, "d"),
        Grew(1, "e"),
        Closed(1),
        Ended(),
    )
    assert folded(payloads)["content"] == [
        {"type": "redacted_thinking", "data": ""},
        {"type": "redacted_thinking", "data": "de"},
    ]


# -- the end ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (StopReason.END, "end_turn"),
        (StopReason.LENGTH, "max_tokens"),
        (StopReason.CONTEXT, "model_context_window_exceeded"),
        (StopReason.CALLS, "tool_use"),
        (StopReason.FILTERED, "refusal"),
        (StopReason.PAUSED, "pause_turn"),
    ],
)
def test_langwatch_6207_every_end_has_its_reason(stop: StopReason, reason: str) -> None:
    answer = Answer("", "", [Text("a")], stop)
    assert whole(answer)["stop_reason"] == reason
    assert folded(stream(*events_of(answer)))["stop_reason"] == reason


def test_the_stop_string_is_told() -> None:
    answer = Answer("", "", [], StopReason.SEQUENCE, "END")
    for found in (whole(answer), folded(stream(*events_of(answer)))):
        assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "END")


@pytest.mark.parametrize(("stop", "reason"), [(StopReason.END, "refusal"), (StopReason.LENGTH, "max_tokens")])
def test_a_refusal_is_text_and_the_reason(stop: StopReason, reason: str) -> None:
    answer = Answer("", "", [Refusal("no")], stop)
    for found in (whole(answer), folded(stream(*events_of(answer)))):
        assert (found["content"], found["stop_reason"]) == ([{"type": "text", "text": "no"}], reason)


def test_a_call_that_was_cut_off_is_never_silently_empty() -> None:
    answer = Answer(
        "", "", [ToolCall("t", "f", '{"a":1,"city":"San J'), ToolCall("u", "f", '{"city":"San J')], StopReason.LENGTH
    )
    one = writer()
    found = one.write_whole(answer)
    assert [json.loads(bytes(block["input"])) for block in found["content"]] == [{"a": 1}, {"_raw": '{"city":"San J'}]
    assert (found["stop_reason"], list(one.losses.codes)) == ("max_tokens", ["truncated_call", "arguments"])
    payloads = stream(*events_of(answer))
    pieces = [event["delta"]["partial_json"] for event in payloads if event["type"] == "content_block_delta"]
    assert "".join(pieces) == '{"a":1,"city":"San J{"city":"San J'


def test_a_failure_is_the_one_error_event() -> None:
    payloads = stream(Began("", ""), Failed(UpstreamError("it broke")))
    assert [event["type"] for event in payloads] == ["message_start", "error"]
    assert payloads[1]["error"]["message"] == "it broke"


def test_posthog_3092_a_ping_is_an_event_of_its_own() -> None:
    assert ping(Dialect.MESSAGES) == b'event: ping\ndata: {"type":"ping"}\n\n'


# -- who and how much ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "written"), [("msg_1", "msg_1"), ("chatcmpl-1", "msg_chatcmpl-1"), ("", "msg_req_1")])
def test_the_messages_id(id: str, written: str) -> None:
    assert whole(Answer(id, "m"))["id"] == written
    assert stream(Began(id, "m"))[0]["message"]["id"] == written


def test_the_model_is_the_serves_word_or_its_name() -> None:
    assert [whole(Answer("", model))["model"] for model in ("m", "")] == ["m", "served"]
    assert [stream(Began("", model))[0]["message"]["model"] for model in ("m", "")] == ["m", "served"]


def test_litellm_31069_the_input_is_told_without_what_was_cached() -> None:
    answer = Answer("", "", tokens=Tokens(input=1000, cached=800, output=9))
    for found in (whole(answer), folded(stream(*events_of(answer)))):
        usage = found["usage"]
        assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (200, 800, 9)
        assert "output_tokens_details" not in usage


def test_ollama_17130_the_fields_of_the_cache_are_always_there() -> None:
    usage = whole(Answer("", ""))["usage"]
    assert usage == {
        "input_tokens": 0, "cache_creation_input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 0,
    }  # fmt: skip


def test_counts_that_contradict_each_other_are_never_negative() -> None:
    assert whole(Answer("", "", tokens=Tokens(input=5, cached=9)))["usage"]["input_tokens"] == 0


def test_the_message_begins_with_what_was_counted_before_and_ends_with_what_the_serve_counted() -> None:
    payloads = stream(Began("", ""), Counted(Tokens(input=12, output=3)), Ended(), input_tokens=10)
    assert payloads[0]["message"]["usage"]["input_tokens"] == 10
    assert (payloads[-2]["usage"]["input_tokens"], payloads[-2]["usage"]["output_tokens"]) == (12, 3)
    early = stream(Began("", "", Tokens(input=11, cached=1)), input_tokens=10)
    assert early[0]["message"]["usage"]["input_tokens"] == 10


def test_what_was_counted_before_stands_where_the_serve_counts_nothing() -> None:
    assert whole(Answer("", ""), input_tokens=10)["usage"]["input_tokens"] == 10
    assert folded(stream(Began("", ""), Ended(), input_tokens=10))["usage"]["input_tokens"] == 10


def test_vllm_serving_a_message_delta_comes_even_if_nothing_was_counted() -> None:
    assert [event["type"] for event in stream(Began("", ""), Finished(StopReason.END), Ended())] == [
        "message_start", "message_delta", "message_stop",
    ]  # fmt: skip
