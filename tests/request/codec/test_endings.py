"""An answer that says nothing, in each dialect, whole and streamed; and what only looks like one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import EMPTY_ANSWER
from stoker.request.codec.frames import StreamReader
from stoker.request.codec.reply_formats import FORMATS

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
PART = {"type": "output_text", "text": "", "annotations": []}
ITEM = {"type": "message", "role": "assistant", "content": [PART]}


def chat(stop: str | None = "stop", **message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": stop}]}


def chunk(stop: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}


def message(stop: str | None = "end_turn", *content: Any) -> dict[str, Any]:
    return {"type": "message", "content": list(content), "stop_reason": stop}


def response(*output: Any, status: str = "completed") -> dict[str, Any]:
    return {"object": "response", "status": status, "output": list(output)}


def block(kind: str = "text", **more: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **more}}


STOP = {"type": "content_block_stop", "index": 0}
START = {"type": "message_start", "message": {"content": []}}
CALL_DELTA = {"type": "content_block_delta", "delta": {"type": "input_json_delta"}}
MESSAGE_STOP = {"type": "message_stop"}


def end(stop: str) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 2}}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        (CHAT, chat(content="")), (CHAT, chat(content=None, tool_calls=[], refusal=None)), (CHAT, chat("eos")),
        (CHAT, chat(None, content="")), (MESSAGES, message()),
        (MESSAGES, message("end_turn", {"type": "text", "text": ""})),
        (RESPONSES, response()), (RESPONSES, response(ITEM)),
    ],
)  # fmt: skip
def test_a_complete_answer_without_anything_is_empty(dialect: Dialect, answer: dict[str, Any]) -> None:
    assert FORMATS[dialect].is_empty(answer)


@pytest.mark.parametrize(
    ("dialect", "answer"),
    [
        (CHAT, chat(content="x")), (CHAT, chat("length", content="")), (CHAT, chat("tool_calls", content=None)),
        (CHAT, chat("content_filter", content="")), (CHAT, chat(content=None, refusal="no")),
        (CHAT, chat(content=None, reasoning_content="hm")), (CHAT, chat(content=None, tool_calls=[{"id": "c"}])),
        (CHAT, {"choices": [*chat(content="")["choices"], *chat(content="x")["choices"]]}), (CHAT, {"choices": []}),
        (MESSAGES, message("end_turn", {"type": "text", "text": "x"})), (MESSAGES, message("max_tokens")),
        (MESSAGES, message("stop_sequence")), (MESSAGES, message("refusal")), (MESSAGES, message("pause_turn")),
        (MESSAGES, message("tool_use", {"type": "tool_use", "id": "t", "name": "n", "input": {}})),
        (MESSAGES, message("end_turn", {"type": "redacted_thinking", "data": "x"})),
        (RESPONSES, response(status="incomplete")), (RESPONSES, response({"type": "function_call"})),
        (RESPONSES, response({"type": "message", "content": [{"type": "refusal", "refusal": "no"}]})),
        (Dialect.EMBEDDINGS, {"data": []}), (CHAT, {}), (MESSAGES, {}), (RESPONSES, {}),
    ],
)  # fmt: skip
def test_what_says_little_or_ended_otherwise_is_not_empty(dialect: Dialect, answer: dict[str, Any]) -> None:
    assert not FORMATS[dialect].is_empty(answer)


def read(dialect: Dialect, payloads: list[dict[str, Any]], done: bool = True) -> StreamReader:
    reader = StreamReader(dialect)
    reader.refuse_empty()
    for payload in payloads:
        assert not reader.is_meaningful or reader.error is None
        reader.feed(b"data: %b\n\n" % json.dumps(payload).encode())
    if done and dialect is CHAT:
        reader.feed(b"data: [DONE]\n\n")
    return reader


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize(
    ("dialect", "payloads"),
    [
        (CHAT, [chunk(role="assistant", content=""), chunk("stop"), {"choices": [], "usage": {"total_tokens": 2}}]),
        (CHAT, [chunk(role="assistant"), chunk(content=""), chunk("stop", content="")]),
        (MESSAGES, [START, {"type": "ping"}, end("end_turn"), MESSAGE_STOP]),
        (MESSAGES, [START, block(text=""), STOP, end("end_turn"), MESSAGE_STOP]),
        (MESSAGES, [START, block(text=""), {"type": "content_block_delta", "delta": {"type": "text_delta", "text": ""}},
                    STOP, end("end_turn"), MESSAGE_STOP]),
        (RESPONSES, [event("created", response=response(status="in_progress")),
                     event("completed", response=response())]),
        (RESPONSES, [event("created"), event("output_item.added", item={**ITEM, "content": []}),
                     event("content_part.added", part=PART), event("output_text.done", text=""),
                     event("content_part.done", part=PART), event("output_item.done", item=ITEM),
                     event("completed", response=response(ITEM))]),
    ],
)  # fmt: skip
def test_a_stream_that_ends_without_anything_is_an_error_and_nothing_of_it_flows(
    dialect: Dialect, payloads: list[dict[str, Any]], done: bool
) -> None:
    reader = read(dialect, payloads, done)
    assert not reader.is_meaningful
    assert reader.error is not None or reader.has_ended()
    assert reader.error is not None
    assert reader.error.code == EMPTY_ANSWER


@pytest.mark.parametrize(
    ("dialect", "payloads", "at"),
    [
        (CHAT, [chunk(role="assistant"), chunk(content="x"), chunk("stop")], 1),
        (CHAT, [chunk(role="assistant"), chunk(reasoning_content="hm"), chunk("stop")], 1),
        (CHAT, [chunk(role="assistant"), chunk(tool_calls=[{"index": 0}]), chunk("tool_calls")], 1),
        (CHAT, [chunk(role="assistant"), chunk("length")], 1), (CHAT, [chunk("content_filter")], 0),
        (CHAT, [chunk(role="assistant"), chunk(refusal="no"), chunk("stop")], 1),
        (MESSAGES, [START, block("thinking", thinking=""), STOP, end("end_turn"), MESSAGE_STOP], 2),
        (MESSAGES, [START, block("redacted_thinking", data="x"), STOP, end("end_turn"), MESSAGE_STOP], 2),
        (MESSAGES, [START, block("tool_use"), CALL_DELTA], 2),
        (MESSAGES, [START, end("stop_sequence"), MESSAGE_STOP], 1), (MESSAGES, [START, end("refusal")], 1),
        (RESPONSES, [event("created"), event("output_item.added", item={"type": "reasoning"}),
                     event("output_item.done", item={"type": "reasoning"})], 2),
        (RESPONSES, [event("created"), event("incomplete", response=response(status="incomplete"))], 1),
        (RESPONSES, [event("created"), event("output_text.delta", delta="x")], 1),
    ],
)  # fmt: skip
def test_a_stream_flows_from_the_frame_from_which_it_flows_without_this_rule(
    dialect: Dialect, payloads: list[dict[str, Any]], at: int
) -> None:
    for frames in range(1, len(payloads) + 1):
        reader, plain = read(dialect, payloads[:frames], done=False), StreamReader(dialect)
        for payload in payloads[:frames]:
            plain.feed(b"data: %b\n\n" % json.dumps(payload).encode())
        assert reader.is_meaningful is plain.is_meaningful is (frames > at), frames
        assert reader.error is None


def test_a_last_frame_without_its_blank_line_that_says_something_is_no_silence() -> None:
    for last, is_empty in ((chunk("stop", content="x"), False), (chunk("stop"), True)):
        reader = StreamReader(CHAT)
        reader.refuse_empty()
        reader.feed(b"data: %b\n\n" % json.dumps(chunk(role="assistant")).encode())
        reader.feed(b"data: %b\n" % json.dumps(last).encode())
        assert reader.has_ended()
        assert (reader.error is not None) is is_empty
