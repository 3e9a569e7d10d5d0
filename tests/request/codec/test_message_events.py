"""A tool call in a Messages stream begins with an `input`, whatever the engine sends; all else keeps its bytes."""

from __future__ import annotations

import json

import pytest

from stoker.domain.dialect import Dialect
from stoker.request.codec.frames import StreamReader
from stoker.request.codec.required_fields import completed_block

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
