"""A failure of a serve, to its client: its own words and status; what no engine can read is the client's error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stoker.domain.errors import CapacityError, ClientError, UpstreamError
from stoker.request.codec.upstream_errors import as_error
from stoker.request.relay import faults
from stoker.request.relay.faults import refusal_of


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "too long"}}, "too long"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}}, "too long"),
        ({"error": "too long"}, "too long"),
        ({"message": "too long"}, "too long"),
        ({"detail": "too long"}, "too long"),
        ({"detail": [{"loc": ["body"], "msg": "too long", "input": "the prompt"}]}, "too long"),
        ({"error": "", "detail": "too long"}, "too long"),
        ("too long", "too long"),
        ({"detail": []}, '{"detail": []}'),
        ({"error": {"code": 7}}, '{"error": {"code": 7}}'),
        (7, "7"),
        (None, "the serve refused the request with HTTP 422"),
    ],
)
def test_its_own_words(body: Any, message: str) -> None:
    error = refusal_of(422, json.dumps(body).encode())
    assert (type(error), error.status, error.message, error.code) == (ClientError, 422, message, "upstream_refused")


@pytest.mark.parametrize("body", [b"", b"<html>", b" ", b"null"])
def test_a_body_that_says_nothing_raises_nothing(body: bytes) -> None:
    assert refusal_of(400, body).message == "the serve refused the request with HTTP 400"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("context_length_exceeded", "context_length_exceeded"),
        ("a" * 99, "a" * 64),
        ("two words", "upstream_refused"),
        ("größe", "upstream_refused"),
        (400, "upstream_refused"),
        ("", "upstream_refused"),
    ],
)
def test_its_code_if_it_is_a_word_for_programs(code: Any, told: str) -> None:
    assert refusal_of(400, json.dumps({"error": {"message": "m", "code": code}}).encode()).code == told


@pytest.mark.parametrize(("given", "seconds"), [(7.0, 7.0), (None, 1.0)])
def test_a_serve_that_is_busy_says_when_to_come_again(given: float | None, seconds: float) -> None:
    error = refusal_of(429, b'{"error":{"message":"slow down"}}', given)
    assert isinstance(error, CapacityError)
    assert (error.status, error.code, error.message, error.retry_after) == (429, "upstream_busy", "slow down", seconds)


def test_an_account_without_credit_is_not_busy() -> None:
    error = refusal_of(429, b'{"error":{"message":"check your plan","code":"insufficient_quota"}}')
    assert (type(error), error.status, error.code) == (ClientError, 429, "insufficient_quota")


def test_any_refusal_may_say_when_to_come_again() -> None:
    assert refusal_of(409, b'{"error":{"message":"another request changes it"}}', 3.0).retry_after == 3.0


READ = [
    "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse error at line 1, column 2",
    "Failed to parse messages: [json.exception.out_of_range.403] key 'arguments' not found",
    'Failed to parse tools: Unsupported tool type: {"type":"web_search"}',
    "Invalid tool_choice: sometimes",
    "\n------------\nWhile executing CallExpression at line 4, column 36 in source:\nError: Jinja Exception: roles",
    "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...",
    "Conversation roles must alternate user/assistant/user/assistant/...",
    "Can only get item pairs from a mapping.",
    'Error rendering prompt with jinja template: "No user query found in messages."',
]
"""What llama.cpp, vLLM, SGLang and LM Studio say."""
FAILED = ["", "CUDA out of memory", "Failed to parse input at pos 12: <tool_call>", "I said: Invalid tool_choice"]


def reply(message: str) -> bytes:
    return json.dumps({"error": {"code": 500, "message": message, "type": "server_error"}}).encode()


@pytest.mark.parametrize("message", READ)
def test_a_500_about_the_request_is_a_400(message: str) -> None:
    error = faults.from_status(500, [], reply(message))
    assert isinstance(error, ClientError)
    assert (error.status, error.code, error.message) == (400, "upstream_refused", message)


@pytest.mark.parametrize("message", READ)
def test_so_is_such_an_error_within_a_stream(message: str) -> None:
    frame: dict[str, Any] = json.loads(reply(message))
    error = as_error(frame)
    assert isinstance(error, ClientError)
    assert (error.status, error.message) == (400, message)


@pytest.mark.parametrize("message", FAILED)
def test_every_other_500_is_the_engines(message: str) -> None:
    assert isinstance(faults.from_status(500, [], reply(message)), UpstreamError)
    assert isinstance(as_error(json.loads(reply(message))), UpstreamError)


@pytest.mark.parametrize("status", [502, 503, 504, 529])
def test_only_a_500_is_looked_into(status: int) -> None:
    assert not isinstance(faults.from_status(status, [], reply(READ[0])), ClientError)
