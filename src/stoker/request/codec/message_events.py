"""What engines leave out of Messages streams, though the dialect requires it."""

from __future__ import annotations

import msgspec

from stoker.request.codec.sse import data_of

TOOL_USE = b'"tool_use"'
"""Without it an event lacks nothing that is known."""
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_WRONG = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NULL = msgspec.Raw(b"null")
_EMPTY = msgspec.Raw(b"{}")


def completed_block(frame: bytes) -> bytes:
    """The start of a tool call with its `input`, which llama.cpp (2026-10) leaves out. Other frames are unchanged."""
    try:
        payload = _fields(data_of(frame))
        block = _fields(payload.get("content_block", _NULL))
    except _WRONG:
        return frame
    if "input" in block or bytes(block.get("type", _NULL)) != TOOL_USE:
        return frame
    data = msgspec.json.encode({**payload, "content_block": {**block, "input": _EMPTY}})
    return b"event: content_block_start\ndata: %b\n\n" % data.replace(b"\n", b" ").replace(b"\r", b" ")
