"""The messages of the Responses API over WebSocket: what clients send, and what replies become. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stoker.domain.errors import ClientError
from stoker.request.codec.bounds import structure
from stoker.request.codec.tolerant_json import NOT_JSON, decode_fields

CREATE = "response.create"
_IGNORED = ("response.processed",)
"""What clients tell, and nobody answers: Codex has read a response to its end."""
_TOLD = (b"retry-after", b"x-request-id")
"""Headers of a refusal that its message repeats."""
_ENDS = ("completed", "incomplete", "failed")
_object = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.encode


def read_message(message: bytes, max_values: int) -> bytes | None:
    """The body of the request that a client's message makes; None: it asks for nothing. Raises ClientError."""
    structure(message, max_values)
    try:
        fields = decode_fields(message)
    except NOT_JSON as error:
        raise ClientError(f"the message is not a JSON object: {error}", code="bad_json") from None
    kind = bytes(fields.pop("type", b"null")).decode(errors="replace").strip('"')
    if kind in _IGNORED:
        return None
    if kind != CREATE:
        text = f"messages of type {kind[:60]!r} are not known here: send {CREATE!r}"
        raise ClientError(text, code="unknown_event", param="type")
    if bytes(fields.pop("stream_id", b"null")) != b"null":
        text = "'stream_id' is not offered: a connection has one response at a time; open another for a parallel one"
        raise ClientError(text, code="unsupported", param="stream_id")
    fields["stream"] = msgspec.Raw(b"true")
    return _encode(fields)


def error_message(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    """A reply that is no success, as an `error` event."""
    try:
        found = _object(body)
    except NOT_JSON:
        found = {"message": body[:2000].decode(errors="replace")}
    error = found.get("error", found)
    if not isinstance(error, dict):
        error = {"message": str(error)}
    error = {"type": "api_error", "code": None, "message": "", "param": None, **error}
    told = {name.decode(): value.decode("latin-1") for name, value in headers if value and name in _TOLD}
    return _encode({"type": "error", "status": status, "error": error, "headers": told})


def events_of(body: bytes) -> list[bytes] | None:
    """A whole response as the events of its stream, without deltas; None: it is no response that has ended."""
    try:
        response = decode_fields(body)
        status = msgspec.json.decode(response.get("status", b"null"))
        items = msgspec.json.decode(response.get("output", b"null"), type=list[msgspec.Raw])
    except NOT_JSON:
        return None
    if status not in _ENDS:
        return None
    begun: dict[str, Any] = {**response, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")
    ]
    for at, item in enumerate(items):
        for step in ("added", "done"):
            events.append({"type": f"response.output_item.{step}", "output_index": at, "item": item})
    events.append({"type": f"response.{status}", "response": response})
    return [_encode({**event, "sequence_number": number}) for number, event in enumerate(events)]
