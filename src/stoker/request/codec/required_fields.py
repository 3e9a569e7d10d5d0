"""What a dialect requires of an answer, and engines leave out: fields of the response object of the Responses API, and
the `input` of a call in streams of Messages.

The schema is that of Open Responses (2026-04-24), whose acceptance tests look at this object first; `user` is required
by OpenAI's own. What a request did not ask for has the value that the API documents as its default, so fields that are
numbers there are numbers here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stoker.request.codec.sse import data_of
from stoker.request.codec.tolerant_json import NOT_JSON, decode_fields

RESPONSE_DEFAULTS: Mapping[str, Any] = {
    "object": "response",
    "background": False,
    "completed_at": None,
    "error": None,
    "frequency_penalty": 0.0,
    "incomplete_details": None,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "output": [],
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "usage": None,
    "user": None,
}
"""Every required field but `id`, `created_at`, `model` and `status`, which have no default."""


def response_object(id: str, created: int, model: str, status: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A whole object. `fields`: what differs from the defaults."""
    return {"id": id, **RESPONSE_DEFAULTS, "created_at": created, "model": model, "status": status, **fields}


_NULL = msgspec.Raw(b"null")
_EMPTY = msgspec.Raw(b"{}")
TOOL_USE = b'"tool_use"'
"""Without it an event of Messages lacks nothing that is known."""
_FILLED = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in RESPONSE_DEFAULTS.items()}


def completed_body(body: bytes) -> bytes:
    """A whole answer of an engine, with the fields that its response object lacks. Other bodies are unchanged."""
    try:
        found = _completed(decode_fields(body))
    except NOT_JSON:
        return body
    return body if found is None else msgspec.json.encode(found)


def completed_event(frame: bytes) -> bytes:
    """An SSE frame with the fields that the response object in it lacks. Other frames are unchanged."""
    try:
        payload = decode_fields(data_of(frame))
        found = _completed(decode_fields(payload.get("response", _NULL)))
        kind = msgspec.json.decode(payload.get("type", _NULL))
    except NOT_JSON:
        return frame
    if found is None or not isinstance(kind, str):
        return frame
    data = msgspec.json.encode({**payload, "response": found}).replace(b"\n", b" ").replace(b"\r", b" ")
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _completed(response: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw] | None:
    """With each default that is missing, or null though the schema knows no null for it. None: nothing is."""
    if bytes(response.get("object", _NULL)) != b'"response"':
        return None  # a compacted conversation, or another object
    lacking = {
        name: value
        for name, value in _FILLED.items()
        if name not in response or (bytes(response[name]) == b"null" != bytes(value))
    }
    return {**response, **lacking} if lacking else None


def completed_block(frame: bytes) -> bytes:
    """The start of a tool call with its `input`, which llama.cpp (2026-10) leaves out. Other frames are unchanged."""
    try:
        payload = decode_fields(data_of(frame))
        block = decode_fields(payload.get("content_block", _NULL))
    except NOT_JSON:
        return frame
    if "input" in block or bytes(block.get("type", _NULL)) != TOOL_USE:
        return frame
    data = msgspec.json.encode({**payload, "content_block": {**block, "input": _EMPTY}})
    return b"event: content_block_start\ndata: %b\n\n" % data.replace(b"\n", b" ").replace(b"\r", b" ")
