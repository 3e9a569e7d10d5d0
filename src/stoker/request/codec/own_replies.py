"""What Stoker itself sends, in the client's dialect: errors, error events, pings. Every error names its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from stoker.domain.dialect import ApiFamily, Dialect, DialectSpec
from stoker.domain.errors import CapacityError, StokerError
from stoker.request.codec.context_overflow import messages_wording, openai_wording
from stoker.request.codec.required_fields import response_object
from stoker.request.codec.retry_advice import NO_CREDIT, may_retry

_encode = msgspec.json.encode
_MESSAGES_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 405: "invalid_request_error", 409: "invalid_request_error", 413: "request_too_large",
    415: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error", 503: "overloaded_error",
    504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip
_OPENAI_TYPES = {
    400: "invalid_request_error", 401: "authentication_error", 402: "insufficient_quota", 403: "permission_error",
    404: "not_found_error", 405: "invalid_request_error", 409: "invalid_request_error", 413: "invalid_request_error",
    415: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error",
    503: "service_unavailable_error", 504: "timeout_error",
}  # fmt: skip
_RESPONSE_CODES = ("context_length_exceeded", "rate_limit_exceeded", NO_CREDIT, "invalid_prompt")
"""Codes of a failed response that clients know. Codex compacts after the first, and gives up after the last two."""
SSE_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
NDJSON_HEADERS = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-cache")]


class StreamPosition(NamedTuple):
    """How far a stream of the Responses dialect has come; other dialects do not say."""

    sequence: int = 0
    """The number of the next event."""
    response: Mapping[str, Any] | None = None
    """The response object: as the client has it or, before the first event, would get it. None: unknown."""
    has_begun: bool = False
    """Whether the client has any event."""


def rfc3339(seconds: float) -> str:
    """Unix seconds as Ollama writes them."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def names_model(dialect: Dialect) -> bool:
    """Whether what Stoker itself writes into a stream of this dialect has the model's name and a time."""
    return dialect.spec.has_response or bool(dialect.spec.nothing)


def stream_headers(dialect: Dialect | None) -> list[tuple[bytes, bytes]]:
    """The headers of a stream that Stoker writes itself."""
    return NDJSON_HEADERS if _spec(dialect).nothing else SSE_HEADERS


def status_of(error: StokerError, dialect: Dialect | None) -> int:
    """The HTTP status in this dialect. Draining is 529 to a client of Anthropic's: its SDK calls that overloaded."""
    is_draining = isinstance(error, CapacityError) and error.code in ("draining", "shutting_down")
    return 529 if is_draining and _spec(dialect).api is ApiFamily.ANTHROPIC else error.status


def error_body(error: StokerError, dialect: Dialect | None, request_id: str) -> bytes:
    """The body of an error reply; for dialect None (status, admin) in OpenAI's form."""
    match _spec(dialect).api:
        case ApiFamily.ANTHROPIC:
            return _encode(_messages_error(error, request_id))
        case ApiFamily.OLLAMA:
            return _encode({"error": error.message})
        case ApiFamily.OPENAI:
            return _encode({"error": _openai_error(error)})


def _spec(dialect: Dialect | None) -> DialectSpec:
    return (dialect or Dialect.CHAT).spec


def error_headers(error: StokerError, dialect: Dialect | None, request_id: str) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", b"application/json"), (b"x-request-id", request_id.encode())]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after))))
    if _spec(dialect).api is ApiFamily.ANTHROPIC:
        headers.append((b"request-id", request_id.encode()))
    if dialect is not None:
        headers.append((b"x-should-retry", b"true" if may_retry(error) else b"false"))
    if error.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="stoker"'))
    headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    return headers


def error_event(
    error: StokerError, dialect: Dialect | None, request_id: str, position: StreamPosition | None = None
) -> bytes:
    """The end of a stream that failed after its 200: one event.

    In the Responses dialect two events, as OpenAI sends them: the SDKs raise at `error`, and Codex reads only
    `response.failed`. If nothing came before them, `response.created` does: OpenAI's stream helper reads no stream
    that begins otherwise, and takes a response of another id for a mistake.
    `error` says everything twice: flat, as OpenAI's SDK has it, and in an object, as OpenAI's servers send it and Open
    Responses requires it.
    """
    spec = _spec(dialect)
    if spec.has_response:
        return _failed_response(error, request_id, position or StreamPosition())
    body = error_body(error, dialect, request_id)
    if spec.nothing:
        return body + b"\n"
    return b"%bdata: %b\n\n" % (b"event: error\n" if spec.api is ApiFamily.ANTHROPIC else b"", body)


def ping(dialect: Dialect | None, model: str = "", created: int = 0) -> bytes:
    """Keeps a silent stream alive; every SDK skips it. `created`: Unix seconds; Ollama's clients read it as a time."""
    if _spec(dialect).api is ApiFamily.ANTHROPIC:
        return b'event: ping\ndata: {"type":"ping"}\n\n'
    if nothing := _spec(dialect).nothing:
        head = (_encode(model), _encode(rfc3339(created)), nothing)
        return b'{"model":%b,"created_at":%b,%b,"done":false}\n' % head
    return b": ping\n\n"


def reasoning_event(text: str, model: str, request_id: str, created: int) -> bytes:
    """A chunk of a chat stream with thinking only. It has no role: the engine's first chunk has it, and SDKs would join
    the two.
    """
    choice = {"index": 0, "delta": {"reasoning_content": text}, "finish_reason": None}
    chunk = {
        "id": f"chatcmpl-{request_id}", "object": "chat.completion.chunk", "created": created, "model": model,
        "choices": [choice],
    }  # fmt: skip
    return b"data: %b\n\n" % _encode(chunk)


def _openai_error(error: StokerError) -> dict[str, object]:
    return {
        "message": openai_wording(error),
        "type": _OPENAI_TYPES.get(error.status, "api_error"),
        "param": error.param,
        "code": error.code,
        "source": error.source,
        **error.details,
    }


def bare_response(request_id: str, model: str, created: int) -> dict[str, Any]:
    """The response object of a stream whose serve has not begun it. `created`: Unix seconds."""
    return response_object(f"resp_{request_id}", created, model, "in_progress", {})


def _failed_response(error: StokerError, request_id: str, position: StreamPosition) -> bytes:
    sequence, response, has_begun = position
    response, created = response or bare_response(request_id, "", 0), b""
    if not has_begun:
        created = _named("response.created", response=response, sequence_number=sequence)
        sequence += 1
    said = _openai_error(error)
    told = _named(
        "error", code=error.code, message=error.message, param=error.param, sequence_number=sequence,
        source=error.source, error=said,
    )  # fmt: skip
    failed = failed_response(error, response)
    return created + told + _named("response.failed", response=failed, sequence_number=sequence + 1)


def failed_response(error: StokerError, response: Mapping[str, Any]) -> dict[str, Any]:
    """A response object, as it stands when the error ends it."""
    problem = {"code": _response_code(error), "message": openai_wording(error), "source": error.source}
    return {**response, "status": "failed", "error": problem}


def _named(kind: str, **fields: object) -> bytes:
    # a response repeats the client's schemas as they were written: a line break between tokens would end the event
    data = _encode({"type": kind, **fields}).replace(b"\n", b" ").replace(b"\r", b" ")
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _response_code(error: StokerError) -> str:
    """OpenAI's word for it: by the last two, agents know whether to send the request again."""
    if error.code in _RESPONSE_CODES:
        return error.code
    if error.status == 429:
        return "rate_limit_exceeded"
    return "invalid_prompt" if error.status < 500 and not may_retry(error) else "server_error"


def _messages_error(error: StokerError, request_id: str) -> dict[str, object]:
    kind = _MESSAGES_TYPES.get(error.status, "api_error")
    message = messages_wording(error)
    detail: dict[str, object] = {"type": kind, "message": message, "code": error.code, "source": error.source}
    detail.update(error.details)
    return {"type": "error", "error": detail, "request_id": request_id}
