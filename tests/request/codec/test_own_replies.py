"""Stoker's own words arrive in the official SDKs as what they are."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from stoker.domain.dialect import Dialect
from stoker.domain.errors import (
    CapacityError,
    ClientError,
    ContextExceeded,
    OurBug,
    StartFailed,
    StokerError,
    UpstreamError,
)
from stoker.request.codec.own_replies import (
    SSE_HEADERS,
    StreamPosition,
    error_body,
    error_event,
    error_headers,
    ping,
    status_of,
)

STATUSES = {400, 401, 402, 403, 404, 405, 409, 413, 415, 422, 429, 500, 502, 503, 504}
CLASSES = {
    400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
    409: "ConflictError", 429: "RateLimitError",
}  # fmt: skip


MESSAGES_TYPES = {
    "invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error",
    "request_too_large", "rate_limit_error", "timeout_error", "api_error", "overloaded_error",
}  # fmt: skip
"""What the Messages API documents."""
Said = tuple[int, list[tuple[bytes, bytes]], bytes]


def openai_sdk(said: Said) -> openai.OpenAI:
    status, headers, body = said
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, headers=headers, content=body))
    client = httpx2.Client(transport=transport)
    return openai.OpenAI(api_key="k", base_url="http://s/v1", http_client=client, max_retries=0)


def ask_openai(said: Said, **more: Any) -> Any:
    sdk = openai_sdk(said)
    return sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], **more)


def ask_anthropic(said: Said, **more: Any) -> Any:
    status, headers, body = said
    transport = httpx2.MockTransport(lambda _: httpx2.Response(status, headers=headers, content=body))
    client = httpx2.Client(transport=transport)
    sdk = anthropic.Anthropic(api_key="k", base_url="http://s", http_client=client, max_retries=0)
    return sdk.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}], **more)


def said(error: StokerError, dialect: Dialect | None) -> Said:
    return status_of(error, dialect), error_headers(error, dialect, "req_1"), error_body(error, dialect, "req_1")


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_every_status_is_an_error_of_its_kind_to_the_openai_sdk(status: int) -> None:
    error = StokerError("what, where, what next", code="some_code", status=status, param="model")
    expected = getattr(openai, CLASSES.get(status, "InternalServerError" if status >= 500 else "APIStatusError"))
    with pytest.raises(expected) as caught:
        ask_openai(said(error, Dialect.CHAT))
    found = caught.value
    assert (found.status_code, found.code, found.param) == (status, "some_code", "model")
    assert found.body["message"] == "what, where, what next"
    assert found.body["source"] == "stoker"
    assert found.type
    assert found.request_id == "req_1"


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_every_status_is_an_error_of_its_kind_to_the_anthropic_sdk(status: int) -> None:
    error = StokerError("what, where, what next", code="some_code", status=status)
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask_anthropic(said(error, Dialect.MESSAGES))
    found = caught.value
    if status in CLASSES:
        assert type(found) is getattr(anthropic, CLASSES[status])
    assert found.status_code == status
    assert found.request_id == "req_1"
    assert isinstance(found.body, dict)
    assert found.body["type"] == "error"
    assert found.body["error"]["message"] == "what, where, what next"
    assert found.body["error"]["source"] == "stoker"
    assert found.body["error"]["type"] in MESSAGES_TYPES


def test_draining_is_overloaded_to_a_messages_client_and_503_to_others() -> None:
    error = CapacityError("m", code="draining", retry_after=2.2)
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask_anthropic(said(error, Dialect.MESSAGES))
    assert caught.value.status_code == 529
    assert caught.value.response.headers["retry-after"] == "3"
    assert caught.value.response.headers["x-should-retry"] == "true"
    assert status_of(error, Dialect.CHAT) == status_of(error, None) == 503
    assert status_of(CapacityError("m"), Dialect.MESSAGES) == 503


GOOD = {
    Dialect.MESSAGES: {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                       "stop_reason": "end_turn", "stop_sequence": None,
                       "usage": {"input_tokens": 1, "output_tokens": 1}},
    Dialect.CHAT: {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []},
    Dialect.RESPONSES: {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []},
}  # fmt: skip


def tries(error: StokerError, dialect: Dialect, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the official SDK sends a request that fails once."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    asked: list[object] = []

    def answer(request: object) -> httpx2.Response:
        asked.append(request)
        if len(asked) > 1:
            return httpx2.Response(200, json=GOOD[dialect])
        status, headers, body = said(error, dialect)
        return httpx2.Response(status, headers=headers, content=body)

    client = httpx2.Client(transport=httpx2.MockTransport(answer))
    try:
        if dialect is Dialect.MESSAGES:
            theirs = anthropic.Anthropic(api_key="k", base_url="http://s", http_client=client)
            theirs.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
        else:
            ours = openai.OpenAI(api_key="k", base_url="http://s/v1", http_client=client)
            if dialect is Dialect.CHAT:
                ours.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
            else:
                ours.responses.create(model="m", input="x")
    except (anthropic.APIStatusError, openai.APIStatusError):
        pass  # it gave up
    return len(asked)


@pytest.mark.parametrize("dialect", [Dialect.MESSAGES, Dialect.CHAT, Dialect.RESPONSES])
@pytest.mark.parametrize(
    "error",
    [
        UpstreamError("the serve failed with HTTP 500", code="upstream_error"),
        UpstreamError("the serve broke off its reply", code="upstream_broke"),
        UpstreamError("the serve sent nothing", code="stalled", status=504),
        UpstreamError("no answer", code="upstream_unusable"),
        UpstreamError("wrong", code="failed_verification"),
        CapacityError("busy", code="upstream_busy"),
        CapacityError("draining", code="draining"),
        StartFailed("it exited", code="exited"),
        OurBug("a bug that may depend on the serve's answer"),
        *(ClientError("m", code="upstream_refused", status=status) for status in (408, 409, 425, 429)),
    ],
    ids=lambda error: f"{error.code}-{error.status}",
)
def test_what_a_retry_may_mend_is_sent_again_by_the_sdks(
    error: StokerError, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tries(error, dialect, monkeypatch) == 2


@pytest.mark.parametrize("dialect", [Dialect.MESSAGES, Dialect.CHAT, Dialect.RESPONSES])
@pytest.mark.parametrize(
    "error",
    [
        ClientError("m"),
        *(ClientError("m", code="upstream_refused", status=status) for status in (401, 402, 403, 404, 413, 422)),
        ContextExceeded("too long"),
        UpstreamError("the serve rejected Stoker's key", code="upstream_auth"),
        UpstreamError("a redirect", code="upstream_redirect"),
        UpstreamError("tokens cannot be counted", code="not_counted", status=501),
        ClientError("no credit", code="insufficient_quota", status=429),
        ClientError("a file changed", code="project_conflict", status=409),
    ],
    ids=lambda error: f"{error.code}-{error.status}",
)
def test_what_no_retry_can_mend_is_sent_once(
    error: StokerError, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tries(error, dialect, monkeypatch) == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UpstreamError("it broke"), "server_error"),
        (CapacityError("busy"), "server_error"),
        (ClientError("slow down", status=429), "rate_limit_exceeded"),
        (ClientError("no credit", code="insufficient_quota", status=402), "insufficient_quota"),
        (ContextExceeded("too long"), "context_length_exceeded"),
        (ClientError("a tool without a name", code="upstream_refused"), "invalid_prompt"),
    ],
)
def test_a_failed_response_says_by_its_code_whether_to_try_again(error: StokerError, code: str) -> None:
    """Codex gives up after `invalid_prompt` and `insufficient_quota`, and sends the request again after the others."""
    events = error_event(error, Dialect.RESPONSES, "r").split(b"\n\n")
    assert json.loads(events[2].partition(b"data: ")[2])["response"]["error"]["code"] == code


def test_retry_after_is_at_least_a_second() -> None:
    assert dict(error_headers(CapacityError("m", retry_after=0.0), None, "r"))[b"retry-after"] == b"1"


def test_a_missing_key_says_how_to_send_one() -> None:
    assert b"www-authenticate" in dict(error_headers(ClientError("m", status=401), None, "r"))
    assert b"www-authenticate" not in dict(error_headers(OurBug("m"), None, "r"))


def test_an_error_event_in_a_chat_stream_is_an_error_to_the_openai_sdk() -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]}  # fmt: skip
    body = b"data: %b\n\n" % json.dumps(chunk).encode() + ping(Dialect.CHAT)
    body += error_event(UpstreamError("it broke"), Dialect.CHAT, "req_1")
    stream = ask_openai((200, SSE_HEADERS, body), stream=True)
    assert next(stream).choices[0].delta.content == "hi"
    with pytest.raises(openai.APIError, match="it broke"):
        next(stream)


def test_an_error_event_in_a_messages_stream_is_an_error_to_the_anthropic_sdk() -> None:
    body = ping(Dialect.MESSAGES) + error_event(UpstreamError("it broke"), Dialect.MESSAGES, "req_1")
    with pytest.raises(anthropic.APIStatusError, match="it broke"):
        list(ask_anthropic((200, SSE_HEADERS, body), stream=True))


def test_an_error_event_in_a_responses_stream_is_read_by_the_openai_sdk() -> None:
    body = ping(Dialect.RESPONSES) + error_event(
        UpstreamError("it broke"), Dialect.RESPONSES, "req_1", StreamPosition(4, None, True)
    )
    try:
        told = [
            e.message
            for e in openai_sdk((200, SSE_HEADERS, body)).responses.create(model="m", input="x", stream=True)
            if e.type == "error"
        ]
    except openai.APIError as error:
        told = [error.message]
    assert any("it broke" in text for text in told)


OLLAMA = (Dialect.OLLAMA_CHAT, Dialect.OLLAMA_GENERATE)


@pytest.mark.parametrize("dialect", OLLAMA)
def test_an_error_is_a_text_to_clients_of_ollama(dialect: Dialect) -> None:
    status, headers, body = said(CapacityError("come again", code="draining", retry_after=2.0), dialect)
    assert (status, json.loads(body)) == (503, {"error": "come again"})
    assert dict(headers)[b"retry-after"] == b"2"
    assert error_event(UpstreamError("it broke"), dialect, "r") == b'{"error":"it broke"}\n'


def test_a_ping_to_clients_of_ollama_is_a_line_that_says_nothing() -> None:
    chat, generate = (json.loads(ping(dialect)) for dialect in OLLAMA)
    empty = {"model": "", "created_at": "1970-01-01T00:00:00Z", "done": False}
    assert chat == empty | {"message": {"role": "assistant", "content": ""}}
    assert generate == empty | {"response": ""}


@pytest.mark.parametrize("dialect", [*Dialect, None])
def test_what_is_written_into_a_stream_is_whole_events(dialect: Dialect | None) -> None:
    end = b"\n" if dialect in OLLAMA else b"\n\n"
    hostile = StokerError("line\n\ndata: [DONE]\r\n\r\nend")
    errors = 3 if dialect is Dialect.RESPONSES else 1
    for event, count in ((error_event(hostile, dialect, "r"), errors), (ping(dialect), 1)):
        assert event.endswith(end)
        assert event.count(end) == count
        assert b"\r" not in event
