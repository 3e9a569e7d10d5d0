"""What a dialect requires and an engine left out is added; everything else keeps its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.dialect import Dialect
from stoker.request.codec.frames import StreamReader
from stoker.request.codec.required_fields import (
    RESPONSE_DEFAULTS,
    completed_block,
    completed_body,
    completed_event,
    response_object,
)

LACKING: dict[str, Any] = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [],
    "temperature": None, "usage": None, "top_p": 0.5, "own": 1.0,
}  # fmt: skip


def test_what_is_missing_and_what_may_not_be_null_gets_its_default() -> None:
    found = json.loads(completed_body(json.dumps(LACKING).encode()))
    assert set(found) == {*RESPONSE_DEFAULTS, *LACKING}
    assert (found["temperature"], found["top_p"], found["top_logprobs"]) == (1.0, 0.5, 0)
    assert (found["usage"], found["completed_at"], found["own"]) == (None, None, 1.0)


@pytest.mark.parametrize("kind", ["response.created", "response.completed", "response.incomplete"])
def test_the_object_in_an_event_is_completed_and_the_event_stays_one(kind: str) -> None:
    event = {"type": kind, "sequence_number": 7, "response": LACKING, "more": [1]}
    text = json.dumps(event, indent=1).replace("\n", "\ndata: ")
    name, data, *rest = completed_event(b"event: %b\ndata: %b\n\n" % (kind.encode(), text.encode())).split(b"\n")
    assert (name, rest) == (f"event: {kind}".encode(), [b"", b""])
    found = json.loads(data.removeprefix(b"data: "))
    assert (found["type"], found["sequence_number"], found["more"]) == (kind, 7, [1])
    assert set(found["response"]) == {*RESPONSE_DEFAULTS, *LACKING}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(response_object("resp_1", 1, "m", "completed", {})).encode(),
        b'{"id": "c", "object": "response.compaction", "output": []}',
        b'{"output": []}',
        b"[1]",
        b"not JSON",
        b"[" * 100_000,
        b'{"object":"\xff"}',
    ],
)
def test_what_is_complete_or_something_else_keeps_its_bytes(body: bytes) -> None:
    assert completed_body(body) == body
    frame = b'data: {"type":"response.completed","response":%b}\n\n' % body
    assert completed_event(frame) == frame
    assert completed_event(b": ping\n\n") == b": ping\n\n"
    assert completed_event(b'data: {"type":3,"response":{"object":"response"}}\n\n').startswith(b'data: {"type":3')


def test_an_object_has_every_default_and_what_differs() -> None:
    made = response_object("resp_1", 5, "m", "failed", {"error": {"code": "x", "message": "y"}})
    assert set(made) == {*RESPONSE_DEFAULTS, "id", "created_at", "model", "status"}
    assert (made["status"], made["error"], made["tools"]) == ("failed", {"code": "x", "message": "y"}, [])


START = {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "f"}}


def test_an_engines_tool_call_gets_its_input() -> None:
    frame = b"event: content_block_start\r\ndata: %b\r\n\r\n" % json.dumps(START).encode()
    name, data, *rest = completed_block(frame).split(b"\n")
    assert (name, rest) == (b"event: content_block_start", [b"", b""])
    found = json.loads(data.removeprefix(b"data: "))
    assert found == START | {"content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}}
    assert StreamReader(Dialect.MESSAGES).feed(b": ping\n\n" + frame).count(b'"input":{}') == 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}',
        b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"\\"tool_use\\""}}',
        b'{"type":"message_delta","delta":{"stop_reason":"tool_use"}}',
        b'{"content_block":["tool_use"]}',
        b'"tool_use"',
        b"[" * 100_000,
    ],
)
def test_other_frames_keep_their_bytes(data: bytes) -> None:
    frame = b"event: x\ndata: %b\n\n" % data
    assert completed_block(frame) == frame
